#!/usr/bin/env python3
"""arrows.py: checks who calls whom. A unit is NAME.c with NAME.h. An arrow is the use of a function or table that one other unit alone
defines, or the include of its header. Fails on a circle of units, and on an arrow against the two tables below."""
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

# Within a module a folder, or a file beside the folders, may use those that stand before it in this list.
ORDER = {
    'inventory': 'model store purchases strategies transactions inventory',
    'lock': 'core redis redlock etcd zookeeper lessons open',
    'service': 'rfc3339 log spelling systemd failpoint config http metrics service background api worker admin_token main',
    'loadtest/lab': 'events judge draw stage scenarios programs play report run list render serve main',
    'loadtest': 'load_options progress http request_plan judge generator sale_report main',
}


def unit(path):
    return path.rsplit('.', 1)[0]


def module(path):
    return max((m for m in MODULES if path.startswith(m + '/')), key=len)


def group(path):
    return path[len(module(path)) + 1:].split('/')[0].split('.')[0]


def strip(text):
    return re.sub(r'"(\\.|[^"\\])*"|\'(\\.|[^\'\\])*\'', '""', re.sub(r'//[^\n]*|/\*.*?\*/', '', text, flags=re.S))


def read():
    listed = subprocess.run(['git', 'ls-files', '-co', '--exclude-standard', '*.c', '*.h'], capture_output=True, text=True, check=True)
    texts = {}
    for path in listed.stdout.split():
        if '/test/' not in path and not path.startswith('test/') and '/bench/' not in path.replace('lock/bench/', ''):
            try:
                with open(path, encoding='utf-8') as file:
                    texts[path] = file.read()
            except FileNotFoundError:
                pass  # removed, and not committed yet
    return texts


def calls(texts):
    """{unit: {unit: names}}"""
    definers = defaultdict(set)
    function = re.compile(r'^(?!static\b|return\b|else\b|typedef\b)[A-Za-z_][\w \t*]*?\b([a-z_]\w*)\([^;{}]*\)\s*\{', re.M)
    table = re.compile(r'^(?!static\b|extern\b)const struct \w+ (\w+)(?:\[[^\]]*\])? = ', re.M)
    for path, text in texts.items():
        if path.endswith('.c'):
            for match in [*function.finditer(text), *table.finditer(text)]:
                definers[match[1]].add(unit(path))
    arrows = defaultdict(lambda: defaultdict(set))
    for path, text in texts.items():
        if not path.endswith('.c'):
            continue
        for name in set(re.findall(r'[A-Za-z_]\w*', text)):
            found = definers.get(name, ())
            if len(found) == 1 and unit(path) not in found:
                arrows[unit(path)][next(iter(found))].add(name)
    return arrows


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
    """Why an arrow is not allowed, or None."""
    home, other = module(source), module(target)
    if other != home:
        return None if other in MODULES[home] else f'{home} must not use {other}'
    order = ORDER.get(home, '').split()
    if not order or group(source) == group(target):
        return None
    for path in (source, target):
        if group(path) not in order:
            return f'{home}/{group(path)} is not in ORDER'
    if order.index(group(source)) < order.index(group(target)):
        return f'{group(target)} comes after {group(source)} in {home}'
    return None


def main():
    texts = read()
    arrows = calls({path: strip(text) for path, text in texts.items()})
    wrong = ['circle: ' + ' '.join(circle) for circle in circles(arrows)]
    for source in sorted(arrows):
        for target, names in sorted(arrows[source].items()):
            reason = against(source, target)
            if reason:
                wrong.append(f'{source} -> {target} ({" ".join(sorted(names))}): {reason}')
    for path, text in sorted(texts.items()):
        for header in re.findall(r'^#include "([^"]+\.h)"', text, re.M):
            if header in texts and module(header) != module(path) and module(header) not in MODULES[module(path)]:
                wrong.append(f'{path} includes {header}: {module(path)} must not use {module(header)}')
    print('\n'.join(wrong) if wrong else f'{len(texts)} files, no circle, no arrow against the tables')
    return bool(wrong)


if __name__ == '__main__':
    sys.exit(main())
