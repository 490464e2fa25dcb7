"""A Django app that is used in several projects declares its tasks on a set, and knows no project."""

from headgate import Retry, TaskSet

tasks = TaskSet()


@tasks.task(queue="email", retry=Retry(attempts=5))
def send(to: str, text: str) -> str:
    return f"to {to}: {text}"
