#!/usr/bin/env python3
"""recount.py EVENTS...: counts in each file of events what its verdict says, by means of its own: the units oversold, and the time in which
two clients or more believed that they held one lock. Prints a line for each. Exit status, the highest of: 0, the verdict says the same (the
time to a millisecond); 1, it does not; 2, this is no file of events with a verdict."""
import json
import sys


def read(path):
    """The events and the verdict."""
    with open(path, encoding='utf-8') as file:
        first, *events = [json.loads(line) for line in file]
    if first['format'] != 'seckill-events/1' or not events or events[-1]['ev'] != 'verdict':
        raise ValueError('there is no verdict in the last line')
    return events[:-1], events[-1]


def oversold(events):
    """Of each item with a stock: what was accepted, less what there was."""
    stock = {e['item']: e['initial'] for e in events if e['ev'] == 'sale.stock'}
    for e in events:
        if e['ev'] == 'write.accepted' and e['item'] in stock:
            stock[e['item']] -= e['quantity']
    return sum(-left for left in stock.values() if left < 0)


def beliefs(events):
    """[begin, end, client, key] of each grant."""
    found, latest = [], {}
    for e in events:
        if e['ev'] == 'acquire.ok':
            belief = {'from': e['t'], 'to': e['until'], 'who': e['who'], 'key': e['key'], 'over': False}
            found.append(belief)
            if e['grant'] != 0:
                latest[e['grant']] = belief
        belief = latest.get(e.get('grant'))
        if belief is None:
            continue
        if e['ev'] == 'renew.ok' and not belief['over']:
            belief['to'] = max(belief['to'], e['until'])
        if e['ev'] in ('renew.lost', 'release.sent') and e['t'] < belief['to']:
            belief['to'], belief['over'] = e['t'], True
    end = max((e['t'] for e in events), default=0)
    return [[b['from'], min(b['to'], end), b['who'], b['key']] for b in found]


def overlap_ns(events):
    """Goes through all begins and ends of each key, and counts who believes between one and the next."""
    total = 0
    changes = {}
    for begin, end, who, key in beliefs(events):
        if begin < end:
            changes.setdefault(key, []).extend([(begin, 1, who), (end, -1, who)])
    for of_key in changes.values():
        believing, since = {}, 0
        for t, change, who in sorted(of_key):
            if len(believing) > 1:
                total += t - since
            since = t
            believing[who] = believing.get(who, 0) + change
            if believing[who] == 0:
                del believing[who]
    return total


def recount(path):
    """Prints the line, and returns the status."""
    try:
        events, verdict = read(path)
        units, ms = oversold(events), overlap_ns(events) / 1e6
        says_units, says_ms = verdict['oversold'], verdict['overlap_ms']
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        print(f'{path}: {type(error).__name__}: {error}')
        return 2
    same = units == says_units and abs(ms - says_ms) <= 1
    print(f'{path}: {"the same" if same else "NOT the same"}: oversold {units}, the verdict {says_units}; '
          f'two holders for {ms:.3f} ms, the verdict {says_ms}')
    return 0 if same else 1


if __name__ == '__main__':
    sys.exit(max(recount(path) for path in sys.argv[1:]))
