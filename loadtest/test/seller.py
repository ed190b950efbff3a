#!/usr/bin/env python3
"""seller.py PORT ITEMS FAULTY STOCK FAULT...: a seller for tests, in memory, with the admin token test-token. It sells the item demo, or the
items demo-0 to demo-(ITEMS-1), each with this STOCK, and is right except for these faults. They apply to item FAULTY, or to all if that is
ITEMS; awkward, and all faults in baskets and transfers, always apply to all. GET /counts says how many requests to buy or transfer it
received, and how many orders it wrote."""
import asyncio
import collections
import json
import sys

FAULTS = {
    'oversells': 'sells 5 units more than there are',
    'undersells': 'answers sold-out with 5 units left',
    'lies': 'its audit hides the faults',
    'loses': 'every tenth order is acknowledged, but not written',
    'alters': 'every tenth order is written for another user',
    'cancels': 'every tenth order is acknowledged as confirmed, but cancelled in the books',
    'phantom': 'writes every tenth order twice, the second without an acknowledgement',
    'sells-twice': 'sells again for a repeated key',
    'retells': 'the answer to a repeated key has one more member than the first',
    'drains': 'every tenth transfer arrives nowhere',
    'unbalanced': 'its audit says that it is not conserved',
    'audits-once': 'the second audit is refused with a 503',
    'inexact': 'the second and third audits are inexact; with audits-once all but the first',
    # Every third request is carried out, except if its key was tried twice before; and then:
    'drops-replies': 'the connection is closed',
    'says-503': 'the answer is a 503',
    'garbles': 'the answer is garbage',
    'silent': 'there is no answer, ever; nor is it carried out',
    'awkward': 'answers in chunks, in pieces, after a 100, without a length, and closes',
}


def problem(status, name, **more):
    return status, {'type': f'/problems/{name}', **more}


class Item:
    """The books of an item."""

    def __init__(self, name, stock, faults):
        self.name, self.stock, self.available, self.faults = name, stock, stock, faults
        self.audits = self.sold = 0  # sold: orders acknowledged; numbers them
        self.orders = {}  # those that were written, by number

    def least(self):
        return -5 if 'oversells' in self.faults else 5 if 'undersells' in self.faults else 0

    def number(self, quantity):
        self.available -= quantity
        self.sold += 1
        return {'order': f'{self.name}:{self.sold}'}

    def sell(self, user, quantity):
        """Takes the units, and writes the order unless a fault prevents it."""
        order = {**self.number(quantity), 'item': self.name, 'user': user, 'quantity': quantity, 'state': 'confirmed'}
        faults = self.faults if self.sold % 10 == 0 else ()
        written = dict(order)
        if 'alters' in faults:
            written['user'] = 'somebody-else'
        if 'cancels' in faults:
            written['state'] = 'cancelled'
        if 'loses' not in faults:
            self.orders[self.sold] = written
        if 'phantom' in faults and self.available >= quantity:
            again = {**written, **self.number(quantity)}
            self.orders[self.sold] = again
        return order

    def audit(self):
        self.audits += 1
        once = 'audits-once' in self.faults
        if 'inexact' in self.faults and self.audits > 1 and (once or self.audits < 4):
            return 200, {'conserved': True, 'exact': False, 'off_by': 1, 'stock': self.stock, 'available': 0, 'held': 0, 'sold': 0,
                         'orders': 0, 'oversold': 0}
        if once and self.audits > 1:
            return problem(503, 'store-unavailable')
        lies, unbalanced = 'lies' in self.faults, 'unbalanced' in self.faults
        units = sum(order['quantity'] for order in self.orders.values())
        body = {'conserved': not unbalanced, 'stock': self.stock, 'available': max(self.available, 0), 'held': 0,
                'sold': self.sold if lies else units, 'orders': self.sold if lies else len(self.orders),
                'oversold': 0 if lies else max(-self.available, 0), 'pending': 0}
        if unbalanced:  # not all sellers have counters
            body['counters'] = {'held': 0, 'sold': units + 7}
        return 200, body


class Seller:
    def __init__(self, items, faults):
        self.items, self.faults = items, faults
        self.requests = self.moved = 0
        self.deeds = {}  # by key: the request that was carried out, and the answer to it
        self.tries = collections.Counter()

    def buy(self, user, lines):
        """Returns the orders, or the reason why there are none."""
        asked = collections.Counter()
        for line, (item, quantity) in enumerate(lines):
            asked[item.name] += quantity
            if item.available - asked[item.name] < item.least():
                return problem(409, 'sold-out', line=line, item=item.name, available=max(item.available, 0))
        return 201, [item.sell(user, quantity) for item, quantity in lines]

    def transfer(self, source, target, quantity):
        if source.available < quantity:
            return problem(409, 'sold-out', available=max(source.available, 0))
        self.moved += 1
        drained = self.moved % 10 == 0 and 'drains' in self.faults
        for item, units in (source, -quantity), (target, 0 if drained else quantity):
            item.stock += units
            item.available += units
        return 200, {'transfer': f'transfer-{self.moved}', 'from': source.name, 'to': target.name, 'quantity': quantity}

    def carry_out(self, kind, asked):
        if kind == 'transfers':
            return self.transfer(self.items[asked['from']], self.items[asked['to']], asked['quantity'])
        lines = [(self.items[line['item']], line['quantity']) for line in asked.get('lines', [asked])]
        status, answer = self.buy(asked['user'], lines)
        if status >= 400:
            return status, answer
        if kind == 'purchases':
            return status, answer[0]
        return status, {'basket': f'basket-{len(self.deeds)}', 'user': asked['user'], 'state': 'confirmed', 'orders': answer}

    def post(self, kind, key, asked):
        """Returns the status and the body, and whether they repeat an answer; None: there is no answer, ever."""
        faults = self.items[asked['item']].faults if kind == 'purchases' else self.faults
        self.requests += 1
        third = int(key[-10:]) % 3 == 0
        if third and 'silent' in faults:
            return None
        self.tries[key] += 1
        third = third and self.tries[key] <= 2
        known = None if 'sells-twice' in faults else self.deeds.get(key)
        if not known:
            status, body = self.carry_out(kind, asked)
            if status < 400:
                self.deeds[key] = asked, status, body
        elif known[0] != asked:
            status, body = problem(422, 'key-reused')
        else:
            status, body = known[1], {**known[2], 'again': True} if 'retells' in faults else known[2]
        if third and 'says-503' in faults:
            status, body = problem(503, 'overloaded')
        return status, body, bool(known), third and [fault for fault in ('drops-replies', 'garbles') if fault in faults]

    def get(self, path, is_admin):
        parts = path.split('/')
        if path == '/counts':
            return 200, {'requests': self.requests, 'orders': sum(len(item.orders) for item in self.items.values())}
        if parts[2] == 'orders':
            name, number = parts[3].split(':')
            order = self.items[name].orders.get(int(number))
            return (200, order) if order else problem(404, 'unknown-order')
        if not is_admin:
            return problem(401, 'unauthorized')
        return self.items[parts[3]].audit()


class Connection(asyncio.Protocol):
    answers = 0  # of all connections

    def __init__(self, seller):
        self.seller, self.data, self.transport = seller, b'', None

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.data += data
        while b'\r\n\r\n' in self.data:
            head, _, rest = self.data.partition(b'\r\n\r\n')
            first, *lines = head.decode().split('\r\n')
            headers = dict(line.split(': ', 1) for line in lines)
            length = int(headers.get('Content-Length', 0))
            if len(rest) < length:
                return
            self.data = rest[length:]
            method, path, _ = first.split(' ')
            self.answer(method, path, headers, rest[:length])

    def answer(self, method, path, headers, body):
        is_admin = headers.get('Authorization') == 'Bearer test-token'
        kind, replayed, mischief = path.split('/')[-1], False, []
        try:
            if method == 'GET':
                status, answer = self.seller.get(path, is_admin)
            elif kind == 'transfers' and not is_admin:
                status, answer = problem(401, 'unauthorized')
            else:
                done = self.seller.post(kind, headers['Idempotency-Key'], json.loads(body))
                if not done:
                    return
                status, answer, replayed, mischief = done
        except KeyError:
            status, answer = problem(404, 'unknown-item')
        if mischief:
            self.transport.write(b'HTTP/1.1 two hundred\r\n\r\n' if mischief == ['garbles'] else b'')
            self.transport.close()
            return
        Connection.answers += 1
        way = Connection.answers % 5 if 'awkward' in self.seller.faults and path != '/counts' else 0
        start = b'HTTP/1.1 %d X\r\n%s' % (status, b'Idempotent-Replayed: true\r\n' if replayed else b'')
        asyncio.ensure_future(self.send(way, start, json.dumps(answer).encode()))

    async def send(self, way, start, body):
        length, half = len(body), len(body) // 2
        pieces = {
            0: [b'%sContent-Length: %d\r\n\r\n%s' % (start, length, body)],
            1: [b'%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s' % (start, half, body[:half]),
                b'\r\n%X;a=b\r\n%s\r\n0\r\n\r\n' % (length - half, body[half:])],
            2: [b'HTTP/1.1 100 Continue\r\n\r\n' + start[:14], b'%scontent-length:%d\r\n\r\n%s' % (start[14:], length, body[:half]), body[half:]],
            3: [b'%sConnection: close\r\nContent-Length: %d\r\n\r\n%s' % (start, length, body)],
            4: [b'HTTP/1.0%s\r\n%s' % (start[8:], body)],
        }[way]
        for piece in pieces:
            self.transport.write(piece)
            await asyncio.sleep(0)
        if way > 2:
            self.transport.close()


async def main(port, count, faulty, stock, *faults):
    assert set(faults) <= FAULTS.keys(), faults
    count, items = int(count), {}
    for i in range(count):
        name = f'demo-{i}' if count > 1 else 'demo'
        items[name] = Item(name, int(stock), faults if int(faulty) in (i, count) else ())
    seller = Seller(items, faults)
    server = await asyncio.get_running_loop().create_server(lambda: Connection(seller), '127.0.0.1', int(port), backlog=256)
    await server.serve_forever()


asyncio.run(main(*sys.argv[1:]))
