#!/usr/bin/env python3
"""recount.py EVENTS...: counts the oversold units and the time with two holders of recorded plays anew, and compares
with their verdicts. Exit status 1: they differ, 2: a file cannot be read."""
import json
import sys


def oversold(events):
    """Units that were accepted beyond what there was, of all items."""
    initial, accepted = {}, {}
    for event in events:
        if event['ev'] == 'sale.stock':
            initial[event['item']] = event['initial']
        if event['ev'] == 'write.accepted':
            accepted[event['item']] = accepted.get(event['item'], 0) + event['quantity']
    return sum(max(0, units - initial[item]) for item, units in accepted.items() if item in initial)


def overlap_ns(events):
    """The time in which two clients or more believe that they hold a key, of all keys: every belief is cut into the
    nanoseconds at which something changes, and counted there."""
    beliefs, end = {}, events[-1]['t'] if events else 0
    for event in events:
        grant = event.get('grant')
        if event['ev'] == 'acquire.ok':
            beliefs[grant] = [event['key'], event['who'], event['t'], event['until'], None]
        elif grant in beliefs and event['ev'] == 'renew.ok' and beliefs[grant][4] is None:
            beliefs[grant][3] = max(beliefs[grant][3], event['until'])
        elif grant in beliefs and event['ev'] in ('renew.lost', 'release.sent') and beliefs[grant][4] is None:
            beliefs[grant][4] = event['t']
    changes = {}
    for key, who, begin, until, ended in beliefs.values():
        stop = min(until, end if ended is None else ended, end)
        if stop > begin:
            changes.setdefault(key, []).extend([(begin, 1, who), (stop, -1, who)])
    total = 0
    for key in changes:
        holders, since = {}, 0
        for t, step, who in sorted(changes[key]):
            if sum(count > 0 for count in holders.values()) > 1:
                total += t - since
            holders[who] = holders.get(who, 0) + step
            since = t
    return total


def main():
    status = 0
    for path in sys.argv[1:]:
        try:
            with open(path, encoding='utf-8') as file:
                events = [json.loads(line) for line in file][1:]
        except (OSError, ValueError) as error:
            print(f'{path}: {error}')
            return 2
        verdict = events.pop()
        units, ns = oversold(events), overlap_ns(events)
        same = units == verdict['oversold'] and abs(ns / 1e6 - verdict['overlap_ms']) <= 1
        status = max(status, 0 if same else 1)
        print(f'{path}: oversold {units}, overlap {ns / 1e6:.0f} ms' +
              ('' if same else f": the verdict says {verdict['oversold']}, {verdict['overlap_ms']} ms"))
    return status


sys.exit(main())
