#!/usr/bin/env python3
"""arrows.py: checks who uses whom. A unit is NAME.c with NAME.h. An arrow is an include of a unit's header, or the use of a function or
table that the unit defines. Fails on a circle of units, on an arrow against the two tables below, and on two files of one name. Tests are free.
First it checks that it finds each kind of fault in a tree that has them."""
import re
import subprocess
import sys
from collections import defaultdict

# A module may use those named here, and itself.
MODULES = {
    'base': [],
    'inventory': ['base'],
    'lock/libetcd': ['base'],
    'lock': ['base', 'lock/libetcd'],
    'lock/bench': ['base', 'lock'],
    'service': ['base', 'inventory', 'lock'],
    'loadtest': ['base'],
    'loadtest/lab': ['base', 'lock', 'lock/libetcd'],
}

# Within a module a folder, or a unit beside the folders, may use those that stand before it in this list. NAME.h, or FOLDER/NAME.h: this header
# alone has another place than its unit or folder, since it declares what others share. *: all that the list does not name; among these there is
# no order.
ORDER = {
    'base': '* redis servers',
    'inventory': 'inventory.h transactions.h model store purchases strategies transactions inventory',
    'lock': 'lock.h core redis redlock etcd zookeeper lessons open',
    'lock/libetcd': 'etcd.h *',
    'lock/bench': '*',
    'service': 'rfc3339 log config http auth background/lock_switch.h metrics.h loop_thread.h background/background.h service.h metrics loop_thread '
               'background admin_token api worker main',
    'loadtest/lab': 'events judge draw stage scenarios lesson_report commands.h run_command render_command serve main',
    'loadtest': 'load_options progress http request_plan judge generator sale_report main',
}

# Base names that stand for one thing wherever they are. The units named last stand in both drivers of base/redis.
SAME_MEANING = {'main.c', 'Makefile', 'README.md', 'index.html'} | {
    unit + end for unit in ('connection', 'dial', 'driver', 'sentinels', 'servers') for end in ('.c', '.h')}


def unit(path):
    return path.rsplit('.', 1)[0]


def module(path):
    return max((m for m in MODULES if path.startswith(m + '/')), key=len)


def group(path):
    return path[len(module(path)) + 1:].split('/')[0].split('.')[0]


def place(path):
    """Where the file, or unit, is in the ORDER of its module; None: nowhere."""
    order = ORDER[module(path)].split()
    for name in (path[len(module(path)) + 1:], group(path), '*'):
        if name in order:
            return order.index(name)
    return None


def strip(text):
    return re.sub(r'"(\\.|[^"\\])*"|\'(\\.|[^\'\\])*\'', '""', re.sub(r'//[^\n]*|/\*.*?\*/', '', text, flags=re.S))


def listed():
    told = subprocess.run(['git', 'ls-files', '-co', '--exclude-standard'], capture_output=True, text=True, check=True)
    return told.stdout.split('\n')[:-1]


def is_test(path):
    return '/test/' in path or path.startswith('test/') or '/bench/' in path.replace('lock/bench/', '')


def read():
    """What is linked into the programs. base/preload is loaded into those of others, and defines functions of the C library anew."""
    texts = {}
    for path in listed():
        if path.endswith(('.c', '.h')) and not is_test(path) and not path.startswith('base/preload/'):
            try:
                with open(path, encoding='utf-8') as file:
                    texts[path] = file.read()
            except FileNotFoundError:
                pass  # removed, and not committed yet
    return texts


def definitions(texts):
    """{name: units that define it}, of functions and tables that are not static."""
    definers = defaultdict(set)
    function = re.compile(r'^(?!static\b|return\b|else\b|typedef\b)[A-Za-z_][\w \t*]*?\b([a-z_]\w*)\([^;{}]*\)\s*\{', re.M)
    table = re.compile(r'^const [\w *]+?\b(\w+)(?:\[[^\]]*\])* = ', re.M)
    for path, text in texts.items():
        if path.endswith('.c'):
            for match in [*function.finditer(text), *table.finditer(text)]:
                definers[match[1]].add(unit(path))
    definers.pop('main', None)
    return definers


def meant(source, definers):
    """Which of the units that define a name the source can mean: those of its own module, if there are any, and otherwise those of modules
    that it may use. If no such unit is left, all."""
    near = {d for d in definers if module(d) == module(source)}
    return near or {d for d in definers if module(d) in MODULES[module(source)]} or definers


def calls(texts):
    """{unit: {unit: names}}, as far as it can be told: a name that several units define tells nothing about circles. And
    [(unit, units, name)]: names of which one of several units is meant."""
    definers = definitions(texts)
    arrows = defaultdict(lambda: defaultdict(set))
    unsure = []
    for path, text in texts.items():
        if not path.endswith('.c'):
            continue
        own = unit(path)
        for name in sorted(set(re.findall(r'(?<![\w.])(?<!->)[A-Za-z_]\w*', text)) & definers.keys()):
            if own in definers[name] or re.search(rf'^static\b[^;{{}}]*\b{name}\(', text, re.M):
                continue
            targets = meant(own, definers[name])
            if len(targets) == 1:
                arrows[own][next(iter(targets))].add(name)
            else:
                unsure.append((own, targets, name))
    return arrows, unsure


def circles(arrows):
    """Strongly connected units (R. Tarjan, "Depth-first search and linear graph algorithms", 1972)."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in list(arrows[node]):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            circle = stack[stack.index(node):]
            del stack[stack.index(node):]
            if len(circle) > 1:
                found.append(sorted(circle))

    for node in list(arrows):
        if node not in index:
            visit(node)
    return found


def against(source, target):
    """Why an arrow between two files, or units, is not allowed, or None."""
    home, other = module(source), module(target)
    if other != home:
        return None if other in MODULES[home] else f'{home} must not use {other}'
    if group(source) == group(target):
        return None
    for path in (source, target):
        if place(path) is None:
            return f'{home}/{group(path)} is not in ORDER'
    return f'{group(target)} comes after {group(source)} in {home}' if place(source) < place(target) else None


def faults(texts):
    arrows, unsure = calls({path: strip(text) for path, text in texts.items()})
    wrong = ['circle: ' + ' '.join(circle) for circle in circles(arrows)]
    for source in sorted(arrows):
        for target, names in sorted(arrows[source].items()):
            reason = against(source, target)
            if reason:
                wrong.append(f'{source} -> {target} ({" ".join(sorted(names))}): {reason}')
    for source, targets, name in unsure:
        reasons = [against(source, target) for target in sorted(targets)]
        if all(reasons):
            wrong.append(f'{source} -> {" or ".join(sorted(targets))} ({name}): {reasons[0]}')
    for path, text in sorted(texts.items()):
        for header in re.findall(r'^#include "([^"]+\.h)"', text, re.M):
            reason = header in texts and against(path, header)
            if reason:
                wrong.append(f'{path} includes {header}: {reason}')
    return wrong


def can_fail():
    """A tree with one fault of each kind; each is found, and nothing else."""
    texts = {
        'inventory/inventory.h': '',
        'inventory/model/names.h': '#include "inventory/inventory.h"\n',
        'inventory/model/names.c': '#include "inventory/store/store.h"\nvoid names(void) {\n}\n',
        'inventory/store/store.h': '#include "lock/lock.h"\n',
        'inventory/store/store.c': 'void store_open(void) {\n    names();\n    queue();\n    twice();\n}\n',
        'inventory/purchases/queue.c': 'void queue(void) {\n    store_open();\n}\nvoid twice(void) {\n}\n',
        'inventory/strategies/batch.c': 'void twice(void) {\n    other();\n}\n',
        'inventory/elsewhere/other.c': 'void other(void) {\n}\n',
        'lock/lock.h': '',
    }
    wanted = [
        'circle: inventory/purchases/queue inventory/store/store',
        'inventory/store/store -> inventory/purchases/queue (queue): purchases comes after store in inventory',
        'inventory/strategies/batch -> inventory/elsewhere/other (other): inventory/elsewhere is not in ORDER',
        'inventory/store/store -> inventory/purchases/queue or inventory/strategies/batch (twice): purchases comes after store in inventory',
        'inventory/model/names.c includes inventory/store/store.h: store comes after model in inventory',
        'inventory/store/store.h includes lock/lock.h: inventory must not use lock',
    ]
    names = [*texts, 'loadtest/store.c', 'base/test/names.c', 'lock/main.c', 'loadtest/main.c']
    return sorted(faults(texts)) == sorted(wanted) and doubles(names) == ['two files of one name: inventory/store/store.c loadtest/store.c']


def doubles(paths):
    """Base names that stand twice, outside tests: a stranger who looks for a file by its name finds two. A Lua script beside the unit that
    calls it, and NAME.h beside NAME.c, are other names."""
    found = defaultdict(list)
    for path in paths:
        if not is_test(path) and '/corpus/' not in path:
            found[path.split('/')[-1]].append(path)
    return [f'two files of one name: {" ".join(sorted(paths))}' for name, paths in sorted(found.items())
            if len(paths) > 1 and name not in SAME_MEANING and not name.startswith('test_')]


def main():
    if not can_fail():
        print('arrows.py does not find the faults of its own example')
        return True
    texts = read()
    wrong = faults(texts) + doubles(listed())
    print('\n'.join(wrong) if wrong else f'{len(texts)} files, no circle, no arrow against the tables, no two of one name')
    return bool(wrong)


if __name__ == '__main__':
    sys.exit(main())
