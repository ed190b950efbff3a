#!/usr/bin/env python3
"""evidence.py LINES DOCUMENT [PROGRAM...]: makes DOCUMENT of what the programs of make torture have counted, a line of JSON each in the file
LINES (see harness_evidence()), and names the programs that failed. Rows of the same attack on the same server are replaced; the others of
DOCUMENT stay, with the commit that they were counted at."""
import json
import subprocess
import sys
from datetime import date
from pathlib import Path

HEAD = '''# Evidence

`make torture` writes this page. Each row has a promise, the attack on it, how often and on which server it was played, and the result.
`make torture STORE=valkey` and `STORE=redis8` do the same on Valkey 8 and Redis 8, and add their rows. A row is replaced when its attack is
repeated on the same server. The *commit* is the state of the code that was attacked. `SECKILL_TORTURE_ROUNDS=3 make torture` plays three rounds
of each attack. Each program prints its seed; `SECKILL_SEED` repeats a run.

'''
ORDERS = '''
## Orders

There are two instances in each round. At the end everything that was ever acknowledged is compared with the books: every order, each line of every
basket, the units of every item, and the limits of users.

- *Lost*: what is not in the books as it was last acknowledged.
- *Put back*: what a failover had lost, and an instance wrote again; 0 means that nothing was lost of which a living instance knew.
- *Told*: the part of the lost that the log or `seckill_shortage_total` reports.
- *Untold*: the rest of the lost; it must be 0.
- –: not counted.

Each master has one replica, unless the attack says otherwise. Redis or Valkey writes its file without waiting for the disk.

'''
LOCKS = '''
## Locks

Six processes (four with etcd) take turns, and record from when to when they believed in their grants.

- *Lost*: grants that a failover had lost before their time was over, as their release reports; –: not counted.
- *Overlap*: the longest time for which two processes believed at once; it must be shorter than the time to live.
- *Fences given twice*: fences that two grants had; it must be 0.

'''
COLUMNS = {ORDERS: ['promise', 'attack', 'times', 'server', 'acknowledged', 'lost', 'put back', 'told', 'untold', 'commit'],
           LOCKS: ['promise', 'attack', 'times', 'server', 'grants', 'lost', 'overlap, ms', 'time to live, ms', 'fences given twice', 'commit']}
RUN = '- **{}**: last on {}; {}{}'


def number(value):
    return '–' if value is None else f'{value:,}'


def row(line, commit):
    """Which table, and its cells."""
    head = [line['promise'], line['attack'], number(line['times']), line['server']]
    if 'grants' in line:
        return LOCKS, head + [number(line.get(name)) for name in ('grants', 'grants_lost', 'overlap_ms', 'ttl_ms', 'fences_twice')] + [commit]
    counts = [line['acknowledged'], line['lost'], line.get('put_back'), line.get('told'), line['lost'] - line.get('told', 0)]
    return ORDERS, head + [number(count) for count in counts] + [commit]


def key(table, cells):
    """What a row is about: promise, attack and server."""
    return table, cells[0], cells[1], cells[3]


def read_old(path):
    """The rows that stand in the document, by what key() says; and its runs, by server."""
    rows, runs, table = {}, {}, None
    for text in path.read_text().splitlines() if path.exists() else []:
        cells = [cell.strip() for cell in text.strip('|').split('|')]
        if text.startswith('- **'):
            runs[text.split('**')[1]] = text
        if text.startswith('## '):
            table = next(each for each in COLUMNS if text in each)
        if text.startswith('| ') and cells != COLUMNS[table]:
            rows[key(table, cells)] = cells
    return rows, runs


def machine():
    text = Path('/proc/cpuinfo').read_text().splitlines()
    models = [line.split(': ')[1] for line in text if line.startswith('model name')]
    memory = int(Path('/proc/meminfo').read_text().split()[1])
    return f'{models[0]}, {len(models)} cores, {round(memory / 1024 / 1024)} GiB'


def main(lines, document, failed):
    rows, runs = read_old(document)
    commit = subprocess.run(['git', 'rev-parse', '--short', 'HEAD'], capture_output=True, text=True, check=False).stdout.strip()
    for line in map(json.loads, lines.read_text().splitlines()):
        table, cells = row(line, commit or 'unknown')
        rows[key(table, cells)] = cells
        runs[line['server']] = RUN.format(line['server'], date.today(), machine(), '; failed: ' + ', '.join(failed) if failed else '')
    text = HEAD + '\n'.join(runs[server] for server in sorted(runs)) + '\n'
    for table, columns in COLUMNS.items():
        text += table + '| ' + ' | '.join(columns) + ' |\n' + '|---' * len(columns) + '|\n'
        text += ''.join('| ' + ' | '.join(rows[of]) + ' |\n' for of in sorted(of for of in rows if of[0] == table))
    document.write_text(text)


main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
