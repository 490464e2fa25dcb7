"""Tests of the conformance suite that noticed mutants of the memory and the SQLite engine: quick to ask elsewhere."""

from __future__ import annotations

_NAMES = {
    "leaks": [
        "many_rate_refusals_before_a_start_cost_one_attempt_one_slot_and_one_token",
        "a_report_with_another_attempt_number_is_refused",
        "a_mixed_load_leaves_nothing_behind",
        "a_heartbeat_after_the_lease_has_lapsed_is_refused",
    ],
    "several_limits": [
        "an_offered_job_that_stays_unclaimed_loses_its_reservation_after_the_time_to_live",
        "closing_a_reserved_key_keeps_its_job_from_starting",
        "refusals_before_the_patience_is_used_up_reserve_nothing",
        "a_job_of_two_keys_starts_within_its_patience_under_endless_single_key_jobs",
    ],
    "any_characters": [
        "keys_with_any_characters_are_kept_apart",
        "a_tenant_and_a_value_that_read_alike_together_are_kept_apart",
    ],
    "rates": [
        "a_costly_head_is_not_starved_by_jobs_that_another_key_offers",
        "a_job_spends_as_many_tokens_as_it_costs",
        "a_costly_head_is_not_passed_by_cheap_newcomers",
        "a_token_offered_and_not_claimed_does_not_make_the_timer_ring_over_and_over",
        "a_limit_declared_as_another_kind_is_refused_and_nothing_is_written",
        "a_sliding_window_never_sees_more_than_its_limit_wherever_it_begins",
    ],
    "limits": [
        "a_cap_declared_while_jobs_run_counts_them_too",
        "the_most_specific_override_wins",
        "an_override_ends_at_its_time",
    ],
    "at_once": [
        "five_jobs_ending_at_once_on_five_connections_let_exactly_five_others_start",
        "a_key_shared_by_two_queues_admits_one_of_them_at_a_time",
        "an_idle_key_of_max_one_makes_one_ready_job_of_many_newcomers",
        "a_retry_and_a_waiter_of_one_key_never_run_together",
        "a_queue_that_nobody_works_does_not_hold_up_another_queue_of_the_same_key",
    ],
    "numbers": [
        "attempts_are_compared_and_not_jobs",
        "a_number_that_is_not_larger_than_the_last_is_refused_whole",
        "a_job_that_was_asked_to_stop_and_is_taken_back_ends_as_cancelled",
    ],
    "blame": [
        "a_lost_attempt_does_not_count_and_raises_the_suspicion_of_all_that_ran",
        "an_attempt_that_ends_clears_its_job",
        "a_restarted_job_is_no_suspect",
        "the_gravest_suspect_is_tried_first_and_lighter_ones_wait_for_it",
        "a_suspect_of_a_task_that_the_worker_does_not_know_is_set_aside_and_frees_its_offer",
        "a_reported_loss_frees_the_slots_at_once",
        "a_grave_suspect_of_a_later_queue_comes_before_lighter_ones_of_an_earlier_one",
    ],
    "floating": [
        "an_override_beats_a_computed_number",
        "a_computed_number_that_rises_from_nought_starts_waiters_at_once_up_to_it",
        "keys_in_use_are_those_held_or_waited_for",
        "a_number_is_forgotten_an_hour_after_it_was_computed_unless_its_key_is_in_use",
    ],
    "unique_and_ids": [
        "a_unique_conflict_that_would_replace_a_running_job_raises",
        "a_restart_does_not_make_a_second_unfinished_job_of_one_unique_key",
        "a_unique_key_of_an_unfinished_job_returns_that_job",
    ],
    "steering": [
        "each_verb_does_or_refuses_each_state_and_names_it",
    ],
    "ticks": [
        "a_tick_that_somebody_else_has_moved_is_refused_and_enqueues_nothing",
    ],
    "handing_over": [
        "a_job_that_comes_first_and_needs_two_slots_gets_both_that_come_back",
        "who_is_offered_a_slot_beyond_what_a_worker_wants_stays_ready",
        "all_slots_that_an_exchange_gives_back_count_for_what_it_claims",
    ],
    "queues": [
        "jobs_set_aside_keep_their_order",
        "a_lapsed_worker_is_forgotten_by_the_sweep",
    ],
}
TELLING = [
    f"tests/conformance/test_{file}.py::test_{name}" for file, names in _NAMES.items() for name in names
]
