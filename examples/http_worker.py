"""A full worker on Python's standard library alone: Headgate is not installed where it runs.

It has a lease, takes part in all limits, agrees with the store again after a lost connection, stops jobs that are
cancelled, and leaves in order on SIGTERM. HEADGATE_API says where the API is, HEADGATE_TOKEN is the secret.
"""

import json
import os
import queue
import signal
import sys
import threading
import time
import traceback
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.request import Request, urlopen

API = os.environ.get("HEADGATE_API", "http://127.0.0.1:8390/api/v1")
HEADERS = {"Content-Type": "application/json"}
if token := os.environ.get("HEADGATE_TOKEN"):
    HEADERS["Authorization"] = f"Bearer {token}"
CONCURRENCY = 4
leaving = threading.Event()


def render(args, stopped):
    stopped.wait(args.get("seconds", 0.02))
    return {"page": args["page"], "by": "python"}


TASKS = {"render": render}


def run(claimed, stopped, ended):
    report = {"job": claimed["job"], "attempt": claimed["attempt"]}
    print(json.dumps({"began": claimed["job"], "args": claimed["args"]}), flush=True)
    try:
        result = TASKS[claimed["task"]](claimed["args"], stopped)
        report |= {"outcome": "cancelled"} if stopped.is_set() else {"outcome": "succeeded", "result": result}
    except Exception:
        report |= {"outcome": "failed", "error": traceback.format_exc(), "retry_in": claimed["retry_in"]}
    print(json.dumps({"ended": claimed["job"], "args": claimed["args"]}), flush=True)
    ended.put(report)


class LeaseLost(Exception): ...


def ask(method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    try:
        with urlopen(Request(API + path, data, HEADERS, method=method), timeout=15) as answer:
            return json.load(answer)
    except HTTPError as error:
        problem = json.load(error)
        if problem["type"] == "/problems/lease-lost":
            raise LeaseLost from None
        if error.code < 500 and error.code not in (408, 409, 429):
            sys.exit(problem["detail"])  # it would be as wrong the next time
        raise


class Worker:
    """One lease. Jobs run in threads; one thread talks to the API."""

    def __init__(self):
        self.renewed = time.monotonic()
        said = ask("POST", "/work", {"tasks": list(TASKS), "concurrency": CONCURRENCY, "name": "python"})
        self.path, self.lease, self.beat = f"/work/{said['worker']}", said["lease"], said["beat"]
        self.number, self.doubt, self.ended = 0, False, queue.Queue()
        self.running = {}  # (job, attempt) -> what tells it to stop
        self.reports = {}  # (job, attempt) -> what the store has not confirmed yet

    def work(self):
        while not leaving.is_set() or self.running or self.reports:
            try:
                cancelling = self.talk()["cancelling"]
                self.stop(pair for pair in self.running if pair[0] in cancelling)
            except (OSError, ValueError, HTTPException) as error:
                print(f"in doubt: {error!r}", file=sys.stderr, flush=True)
                self.doubt = True
            except LeaseLost:
                self.stop(self.running)
                raise
            if time.monotonic() > self.renewed + self.lease:
                self.stop(self.running)
                raise LeaseLost
            self.take_reports(0.5 if self.running or self.doubt else 0)
        ask("DELETE", self.path)

    def talk(self):
        self.number += 1
        if self.doubt:  # what took effect is not known: say what is here, and drop what is not ours
            known = [*self.running, *self.reports]
            answer = ask("POST", f"{self.path}/resume", {"number": self.number, "known": known})
            alive = set(map(tuple, answer["alive"]))
            self.stop(lost := self.running.keys() - alive)
            for pair in lost:
                del self.running[pair]
            self.reports = {pair: self.reports[pair] for pair in self.reports.keys() & alive}
            self.doubt = False
        elif time.monotonic() > self.renewed + self.beat:
            asked = time.monotonic()
            answer = ask("POST", f"{self.path}/heartbeat")
            self.renewed = asked
        else:  # a long poll only while there is nothing to report
            wait = 0 if self.running or self.reports or leaving.is_set() else 5
            want = 0 if leaving.is_set() else CONCURRENCY - len(self.running)
            reports = list(self.reports.values())
            body = {"number": self.number, "reports": reports, "want": want, "wait": wait}
            answer = ask("POST", f"{self.path}/exchange", body)
            self.reports = {}
            for claimed in answer["attempts"]:
                stopped = self.running[claimed["job"], claimed["attempt"]] = threading.Event()
                threading.Thread(target=run, args=(claimed, stopped, self.ended), daemon=True).start()
        return answer

    def stop(self, pairs):
        for pair in pairs:
            self.running[pair].set()

    def take_reports(self, patience):
        try:
            while True:
                report = self.ended.get(timeout=patience) if patience else self.ended.get_nowait()
                patience = 0
                pair = report["job"], report["attempt"]
                if self.running.pop(pair, None):
                    self.reports[pair] = report
        except queue.Empty:
            pass


if __name__ == "__main__":
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: leaving.set())
    while not leaving.is_set():
        try:
            Worker().work()
        except (LeaseLost, OSError) as error:
            print(f"begins anew: {error!r}", file=sys.stderr, flush=True)
            time.sleep(0.5)
