#!/usr/bin/env python3
"""Tests of the verdict: python3 bench/peers/judge_test.py"""

import sys
import unittest

sys.dont_write_bytecode = True

import judge  # noqa: E402
from settings import SETTINGS, launch  # noqa: E402
from pathlib import Path  # noqa: E402

KIB, MIB = 1 << 10, 1 << 20


def row(program, size, median_us, p99_us=9.0, distance="near", **more):
    made = {"program": program, "bytes": size, "median_us": median_us, "p99_us": p99_us, "n": 10,
            "round_trip_ns": [100, 100], "core_distance": distance} | more
    return made | {"placement": judge.placement_of(made)}


class Placement(unittest.TestCase):
    def test_near_far_and_dropped(self):
        for distance in ("near", "far"):
            self.assertEqual(judge.placement_of({"core_distance": distance}), distance)
        for distance in ("moved", "hyperthreads", "shared core"):
            self.assertIsNone(judge.placement_of({"core_distance": distance}))

    def test_dropped_rows_do_not_count(self):
        rows = [row("a", 8, 1.0), row("a", 8, 0.1, distance="hyperthreads"), row("a", 8, 3.0, distance="far")]
        figures = judge.figures(rows)
        self.assertEqual({key: f.median_us for key, f in figures.items()},
                         {("a", 8, "near"): 1.0, ("a", 8, "far"): 3.0})


class Figures(unittest.TestCase):
    def test_medians_over_rounds(self):
        figure = judge.figures([row("a", 8, us, p99) for us, p99 in ((1, 5), (2, 7), (50, 900))])["a", 8, "near"]
        self.assertEqual((figure.median_us, figure.p99_us, figure.mad_us, figure.n, figure.rounds), (2, 7, 1, 30, 3))

    def test_rounds_count_only_where_all_programs_were_in_one_placement(self):
        rows = [row("a", 8, 1), row("a", 8, 1), row("b", 8, 1, distance="far")]
        self.assertEqual(judge.complete_rounds(rows, ["near", "far"]), 0)
        rows += [row("a", 8, 1, distance="far"), row("c", 64, 1)]
        self.assertEqual(judge.complete_rounds(rows, ["near", "far"]), 1)
        self.assertEqual(judge.complete_rounds(rows, ["near"]), 0)
        self.assertEqual(judge.complete_rounds([], ["near"]), 0)

    def test_best_peer_needs_rounds_if_another_has_them(self):
        figures = judge.figures([row("lucky", 8, 0.1)] + [row("steady", 8, 0.3)] * 7 + [row("slow", 8, 0.5)] * 7)
        names = ["lucky", "steady", "slow", "absent"]
        self.assertEqual(judge.best_peer(figures, names, 8, "near", 7).program, "steady")
        self.assertEqual(judge.best_peer(figures, ["lucky"], 8, "near", 7).program, "lucky")
        self.assertIsNone(judge.best_peer(figures, names, 8, "far", 7))


class Marks(unittest.TestCase):
    def test_table_of_goals(self):
        goals = {size: (judge.mark("all-reduce", 2, "private", size), judge.mark("all-reduce", 2, "registered", size))
                 for size in (8, 64, KIB, 16 * KIB, 64 * KIB, 256 * KIB, 4 * MIB, 64 * MIB, 2 * KIB)}
        self.assertEqual({size: (p and p[0], r and r[0]) for size, (p, r) in goals.items()},
                         {8: (2, None), 64: (1.8, None), KIB: (1.4, 1.6), 16 * KIB: (1.1, 1.9), 64 * KIB: (1.15, 2.4),
                          256 * KIB: (1, 2.8), 4 * MIB: (1, 3), 64 * MIB: (1, 1.7), 2 * KIB: (None, None)})

    def test_other_operations_must_be_faster_at_four_sizes(self):
        for buffers in judge.buffers_of("broadcast"):
            promised = [size for size in (8, 64, 4 * KIB, 64 * KIB, MIB, 16 * MIB)
                        if judge.promised("broadcast", 2, buffers, size)]
            self.assertEqual(promised, [8, 4 * KIB, 64 * KIB, MIB])
        self.assertEqual(judge.buffers_of("barrier"), ("private",))
        self.assertTrue(judge.promised("barrier", 2, "private", 0))
        found = judge.figures([row("ours", 8, 0.21, 1), row("peer", 8, 0.2, 2)])
        slow = judge.misses("broadcast", 2, "private", found["ours", 8, "near"], found["peer", 8, "near"])
        self.assertIn("0.95 times", slow[0])

    def missed(self, buffers, ours, peer, ranks=2):
        found = judge.figures([row("ours", *ours[:3], **ours[3]), row("peer", *peer)])
        return judge.misses("all-reduce", ranks, buffers, found["ours", ours[0], "near"], found["peer", peer[0], "near"])

    def test_ratio_p99_and_floor(self):
        self.assertEqual(self.missed("private", (8, 0.1, 0.5, {"share_of_limit": 0.85}), (8, 0.2, 0.6)), [])
        self.assertIn("1.90 times", self.missed("private", (8, 0.1, 0.5, {}), (8, 0.19, 0.6))[0])
        self.assertIn("p99", self.missed("private", (8, 0.1, 0.7, {}), (8, 0.3, 0.6))[0])
        self.assertIn("floor", self.missed("private", (8, 0.1, 0.5, {"share_of_limit": 0.79}), (8, 0.3, 0.6))[0])
        self.assertIn("floor", self.missed("registered", (MIB, 1, 2, {"share_of_limit": 0.7}), (MIB, 9, 9))[0])

    def test_eight_ranks_are_judged_by_their_p99(self):
        self.assertEqual(self.missed("private", (8 * KIB, 50, 1999, {}), (8 * KIB, 9, 9), ranks=8), [])
        self.assertIn("2000", self.missed("private", (8 * KIB, 50, 2001, {}), (8 * KIB, 9, 9), ranks=8)[0])


class Settings(unittest.TestCase):
    def test_labels_are_unique_and_every_size_has_all_peers(self):
        self.assertEqual(len({s.label for s in SETTINGS}), len(SETTINGS))
        for operation in ("all-reduce", "broadcast"):
            for size in (0, 8, 64 * KIB, 64 * MIB):
                peers = {s.peer for s in SETTINGS if s.sizes(operation, [size])}
                self.assertEqual(peers, {"openmpi5", "openmpi4", "impi", "mpich"})

    def test_ranks_that_share_cores_yield(self):
        intel = next(s for s in SETTINGS if s.peer == "impi")
        self.assertNotIn("I_MPI_THREAD_YIELD", launch(Path("/x"), intel, 2, 2)[1])
        self.assertEqual(launch(Path("/x"), intel, 4, 2)[1]["I_MPI_THREAD_YIELD"], "2")


if __name__ == "__main__":
    unittest.main()
