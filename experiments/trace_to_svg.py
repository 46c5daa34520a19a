#!/usr/bin/env python3
"""Draws a trace that `ompipe run --trace` wrote as an SVG: a row for each thread, a bar for each task, a line for each milestone.

    experiments/trace_to_svg.py trace.json trace.svg [--until first_output] [--width 1200]
"""

import argparse
import html
import json

COLOURS = {"read": "#4c78a8", "prepack": "#f58518", "segment": "#54a24b", "publish": "#b279a2", "evict": "#e45756", "persist": "#9d755d",
           "transfer": "#72b7b2"}
LABELS = {"read": "read", "prepack": "prepack", "segment": "run layers", "publish": "publish", "evict": "evict", "persist": "persist",
          "transfer": "transfer"}
LEFT, TOP, ROW, GAP, BOTTOM = 110, 46, 26, 8, 34
SHOWN_MILESTONES = {"first_read", "first_prepack", "first_publish", "first_segment", "first_output", "first_token", "fully_prepared"}


def load(path):
    """(tracks as {tid: name}, events, milestones as {name: microseconds})."""
    with open(path) as file:
        entries = json.load(file)["traceEvents"]
    tracks = {entry["tid"]: entry["args"]["name"] for entry in entries if entry["name"] == "thread_name"}
    events = [entry for entry in entries if entry["ph"] == "X"]
    milestones = {entry["name"]: entry["ts"] for entry in entries if entry["ph"] == "i"}
    return tracks, events, milestones


def tick_step(span_ms):
    """A round step that gives 5 to 12 ticks."""
    step = 10.0 ** -3
    while True:
        for factor in (1, 2, 5):
            if span_ms / (step * factor) <= 12:
                return step * factor
        step *= 10


def row_order(tracks):
    """I/O threads on top, then compute threads, then the coordinator."""
    rank = {"io": 0, "compute": 1}
    return sorted(tracks, key=lambda tid: (rank.get(tracks[tid].split()[0], 2), tid))


def draw(tracks, events, milestones, until, width):
    begin = min(event["ts"] for event in events)
    end = milestones.get(until) or max(event["ts"] + event["dur"] for event in events)
    events = [event for event in events if event["ts"] < end and event["args"]["kind"] in COLOURS]
    used = {event["tid"] for event in events}
    rows = [tid for tid in row_order(tracks) if tid in used]
    y_of = {tid: TOP + index * (ROW + GAP) for index, tid in enumerate(rows)}
    height = TOP + len(rows) * (ROW + GAP) + BOTTOM
    scale = (width - LEFT - 20) / (end - begin)

    def x(ts):
        return LEFT + (min(ts, end) - begin) * scale

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
           f'<rect width="{width}" height="{height}" fill="white"/>']
    legend = LEFT
    for kind in COLOURS:
        if any(event["args"]["kind"] == kind for event in events):
            out.append(f'<rect x="{legend}" y="8" width="12" height="12" fill="{COLOURS[kind]}"/>')
            out.append(f'<text x="{legend + 17}" y="18">{LABELS[kind]}</text>')
            legend += 100
    bottom = height - BOTTOM
    step = tick_step((end - begin) / 1000)
    for index in range(int((end - begin) / 1000 / step) + 1):
        at = x(begin + index * step * 1000)
        out.append(f'<line x1="{at:.1f}" y1="{TOP - 6}" x2="{at:.1f}" y2="{bottom}" stroke="#ddd"/>')
        out.append(f'<text x="{at:.1f}" y="{bottom + 16}" text-anchor="middle" fill="#555">{index * step:g} ms</text>')
    for tid in rows:
        out.append(f'<text x="{LEFT - 8}" y="{y_of[tid] + ROW * 0.68:.1f}" text-anchor="end">{html.escape(tracks[tid])}</text>')
    for event in sorted(events, key=lambda event: event["args"]["kind"] == "publish"):
        left = x(event["ts"])
        bar = max(x(event["ts"] + event["dur"]) - left, 0.6)
        title = f"{html.escape(event['name'])}, {event['dur'] / 1000:.3f} ms"
        out.append(f'<rect x="{left:.2f}" y="{y_of[event["tid"]]}" width="{bar:.2f}" height="{ROW}" '
                   f'fill="{COLOURS[event["args"]["kind"]]}"><title>{title}</title></rect>')
    for name, at in sorted(milestones.items(), key=lambda item: item[1]):
        if name in SHOWN_MILESTONES and begin <= at <= end:
            out.append(f'<line x1="{x(at):.1f}" y1="{TOP - 14}" x2="{x(at):.1f}" y2="{bottom}" stroke="#333" stroke-dasharray="3 3">'
                       f'<title>{name}</title></line>')
    out.append("</svg>")
    return "\n".join(out) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace")
    parser.add_argument("svg")
    parser.add_argument("--until", default="first_output", help="the milestone at which the picture ends, or 'end'")
    parser.add_argument("--width", type=int, default=1200)
    arguments = parser.parse_args()
    tracks, events, milestones = load(arguments.trace)
    if not events:
        parser.error(f"{arguments.trace} holds no task")
    with open(arguments.svg, "w") as file:
        file.write(draw(tracks, events, milestones, arguments.until, arguments.width))


if __name__ == "__main__":
    main()
