/** What a task says in moments that no test of a whole service can choose. */
import { expect, test } from '@jest/globals';
import type { CallToolResult } from '@modelcontextprotocol/server';
import type { Caller } from '../../../gateway/gate/calls.ts';
import { CountersignError } from '../../../contracts/errors.ts';
import { CALL_META } from '../../../gateway/gate/replies.ts';
import { GateTasks, type GateTasksParts } from '../../../gateway/gate/tasks.ts';
import { approvalRequest } from '../../support/builders/approval-request.ts';

const TASK = 'gate-00000000-0000-0000-0000-000000000001';
const caller: Caller = {
  asker: { id: 'ann', groups: [], tenant: 'default', may: new Set(['start']), seesAll: false, until: 1 },
  client: 'key/coder',
};
const exchange = {
  gone: new AbortController().signal,
  hasLeft: () => false,
  delivered: Promise.resolve(true),
};

function endedAs(status: string): CallToolResult {
  return { content: [{ type: 'text', text: status }], isError: true, _meta: { [CALL_META]: { status } } };
}

/** A call that a person is asked about, and that ends so when it is stopped. */
function tasksWith(end: CallToolResult | undefined, over: Partial<GateTasksParts> = {}) {
  const delivered: string[] = [];
  const ticket = { ticketId: 'gate/t', execution: 'e', runId: TASK, ageMs: 0 };
  const starter = {
    initiator: 'ann',
    tenant: 'default',
    ticketId: 'gate/t',
    startedAt: new Date(0),
    servers: ['bank'],
    isOnReturn: false,
  };
  const tasks = new GateTasks({
    calls: {
      find: async () => ({ runId: TASK, ticketId: 'gate/t', ticket, starter, isOwn: true, isOnReturn: false }),
      present: async () => undefined,
    },
    outcomes: {
      endOf: async () => end,
      pendingOf: async () => ({ reference: TASK, status: 'running' }),
      openOf: async () => [approvalRequest()],
      isUnsent: async () => true,
    },
    tickets: {
      keptMs: async () => 1_000,
      runsOf: async () => ({ runIds: [] }),
      starterOf: async () => starter,
      delivering: ({ ticketId }) => void delivered.push(ticketId),
    },
    stop: async () => undefined,
    ...over,
  });
  return { tasks, delivered };
}

test('a call that was approved in the moment of its cancelling is not told as cancelled, and its ticket stays', async () => {
  const { tasks, delivered } = tasksWith(endedAs('unknown'));
  expect(await tasks.cancel(caller, TASK, exchange)).toEqual({ kind: 'over' });
  expect(delivered).toEqual([]);
});

test('a call that never ran is cancelled, and its ticket ends with the answer', async () => {
  const { tasks, delivered } = tasksWith(endedAs('cancelled'));
  expect(await tasks.cancel(caller, TASK, exchange)).toMatchObject({ kind: 'cancelled', task: { taskId: TASK } });
  expect(delivered).toEqual(['gate/t']);
});

test('a stop whose end nobody has heard of yet is no cancelling', async () => {
  expect(await tasksWith(undefined).tasks.cancel(caller, TASK, exchange)).toEqual({ kind: 'goes-on' });
});

test('a call that has ended before the stop is over; any other trouble is told', async () => {
  const refusing = (code: 'RUN_CLOSED' | 'SIGNATURE_MISSING') =>
    tasksWith(endedAs('cancelled'), {
      stop: async () => {
        throw new CountersignError(code, code);
      },
    }).tasks.cancel(caller, TASK, exchange);
  expect(await refusing('RUN_CLOSED')).toEqual({ kind: 'over' });
  await expect(refusing('SIGNATURE_MISSING')).rejects.toThrow('SIGNATURE_MISSING');
});
