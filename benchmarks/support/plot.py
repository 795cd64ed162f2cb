#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""plot.py OUT.svg CSV...: ratio to the first contestant over the message size, one panel per number
of ranks, from the files that the benchmarks write with --csv. Needs matplotlib."""
import csv
import sys

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "hvdlite"  # the same file from the same figures
import matplotlib.pyplot as plt

rows = [row for name in sys.argv[2:] for row in csv.DictReader(open(name))]
counts = sorted({int(row["ranks"]) for row in rows})
figure, panels = plt.subplots(1, len(counts), figsize=(4.5 * len(counts), 3.6), sharey=True)
for panel, ranks in zip([panels] if len(counts) == 1 else panels, counts):
    mine = [row for row in rows if int(row["ranks"]) == ranks]
    first = mine[0]["contestant"]
    for name in dict.fromkeys(row["contestant"] for row in mine):
        line = [(float(r["bytes"]), float(r["ratio"])) for r in mine if r["contestant"] == name]
        panel.plot(*zip(*line), marker=".", label=name)
    panel.set(xscale="log", title=f"{ranks} processes", xlabel="bytes")
    panel.grid(alpha=0.3)
    panel.axhline(1, color="black", linewidth=0.8)
figure.axes[0].set_ylabel(f"time / {first}")
figure.axes[0].legend(fontsize="small")
figure.tight_layout()
figure.savefig(sys.argv[1], metadata={"Date": None})
