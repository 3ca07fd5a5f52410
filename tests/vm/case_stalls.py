# SPDX-License-Identifier: Apache-2.0
"""Attacks on the kernel of Debian 12: descriptors whose last close waits for the unprivileged user who made them."""
from lab.case import case, quote
from service import PROGRAMS

# The installed daemon, private to the test. Without an attack, the median of 15 answers in an emulated machine is 21 to 112 ms,
# and one answer takes 5 ms to 1.7 s (20 medians, the two CPUs outside busy). Outside the median is 0.3 ms. Thus the slowness.
ENVIRONMENT = f'SHMEMD_BINARY=$(command -v shmemd) SHMEMD_TEST_FD_KEEPER={PROGRAMS}/fd-keeper SHMEMD_TEST_SLOWNESS=8'


def run_tests(node, program, *names, limit=300):
    """Each by name, as root, which the attackers of the tests give up; none may be skipped."""
    for name in names or ['']:
        said = node.run(f'modprobe -q fuse; ulimit -n 65536; cd /tmp; {ENVIRONMENT} {PROGRAMS}/{program} {quote(name) if name else ""}',
                        limit=limit).out
        assert 'SKIP' not in said, said


@case(short=True)
def a_porter_holds_what_clients_hand_over(lab):
    run_tests(lab.node(1), 'test-porter')
    run_tests(lab.node(1), 'test-porter-death')


@case(short=True)
def a_porter_that_is_taken_over_reaches_no_other_process(lab):
    run_tests(lab.node(1), 'test-sandbox')


@case(short=True)
def a_socket_and_a_pipe_whose_close_waits_for_an_attacker_delay_no_client(lab):
    run_tests(lab.node(1), 'test-stalls', 'socket_in_which_a_send_stands_delays_no_client',
              'pipe_in_which_a_write_stands_delays_no_client')


# An emulated machine takes a minute to make enough inotify descriptors, and cannot make an epoll descriptor that watches enough.
OTHERS = (
    'eventfd_that_a_standing_epoll_watches_delays_no_client',
    'userfaultfd_of_a_process_that_stands_delays_no_client',
    'packet_sockets_delay_no_client',
    'descriptor_from_the_daemon_that_a_standing_epoll_watches_delays_no_client',
    'descriptors_of_a_kept_session_delay_neither_the_daemon_nor_the_service_manager',
    'pipe_that_is_published_does_not_reach_the_service_manager',
    'eventfd_that_is_published_does_not_reach_the_service_manager',
    'userfaultfd_that_is_published_does_not_reach_the_service_manager',
    'pipe_that_is_sent_while_no_daemon_runs_holds_up_neither_the_next_one_nor_the_service_manager',
    'descriptors_that_are_sent_before_the_first_daemon_delay_no_client',
    'eventfd_that_is_sent_while_no_daemon_runs_holds_up_neither_the_next_one_nor_the_service_manager',
)


@case()
def no_descriptor_that_stalls_its_last_close_holds_up_the_daemon_or_the_service_manager(lab):
    run_tests(lab.node(1), 'test-stalls', *OTHERS)


# A hole takes so long only while the process that punches it seldom runs.
HOLES = (
    'in_processes_requests_of_others_that_map_memory_are_answered_while_a_hole_stops_every_mapping_of_a_user',
    'in_processes_no_thread_that_sleeps_at_a_users_memory_keeps_the_daemon_from_dying',
    'in_processes_no_mapping_that_waits_for_a_hole_keeps_the_daemon_from_dying',
)


@case()
def holes_in_memory_of_one_user_delay_no_other_and_keep_no_daemon_from_dying(lab):
    run_tests(lab.node(1), 'test-stall', *HOLES)
    run_tests(lab.node(1), 'test-stall-pages', 'holes_in_a_health_page_do_not_keep_the_daemon_from_dying')
