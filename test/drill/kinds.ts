/**
 * Lists the ways in which a run may wait while builds change: how each is brought to its pause, how one sees that it
 * waits, and what its servers must have executed in the end.
 *
 * 1. Bringing a run to its pause, and what ends the pause, may be repeated: a worker may be killed in between.
 */
import { writeFileSync } from 'node:fs';
import type { Countersign, RunHandle } from '../../client/index.ts';
import type { Script } from '../../contracts/schemas/script.ts';
import type { RunSpecInput } from '../../contracts/schemas/run-spec.ts';
import { entryOf } from '../../domain/catalog/state.ts';
import { until } from '../support/until.ts';
import { approveBy } from './people.ts';
import { fileOf, HOSTED_MODEL, INITIATOR, type Servers, STALE, UNEDITED } from './servers.ts';

export interface Scene {
  readonly countersign: Countersign;
  readonly servers: Servers;
  /** Names of the activities that wait for a worker, or are with one. */
  activities(workflowId: string): Promise<readonly string[]>;
  isOver(workflowId: string): Promise<boolean>;
}

type Steps = (typeof Script)['_zod']['input']['steps'];

export interface Kind {
  readonly name: string;
  /** Calls that servers execute for one run of this kind. */
  readonly calls: number;
  /** What its model does, if a model is asked. */
  steps?(id: string, servers: Servers): Steps;
  start(scene: Scene, id: string): Promise<unknown>;
  /** True once it waits. */
  waits(scene: Scene, id: string): Promise<boolean>;
  /** What ends the pause, beside the answers of people. Called again until the run is over. */
  free?(scene: Scene, id: string): Promise<unknown>;
  /** False for workflows that are no runs: they ask nobody by requests. */
  readonly isRun?: false;
  /** True if it waits until the old build is gone. */
  readonly isLast?: true;
  /** True once it is over; by default: once its run is. */
  isOver?(scene: Scene, id: string): Promise<boolean>;
  /** What is lost although all calls are there. */
  lost?(scene: Scene, id: string): Promise<string | undefined>;
  /** By default the id of the run. */
  workflowId?(scene: Scene, id: string): string;
}

const DONE = { text: 'done' };

function once(tool: string, purpose: string, more: object = {}): Steps[number] {
  return { calls: [{ tool, arguments: { purpose, ...more } }] };
}

async function start({ countersign }: Scene, id: string, server: string, over: Partial<RunSpecInput> = {}) {
  return await countersign.startRun({
    runId: id,
    spec: {
      agent: { name: 'clerk', model: id },
      input: id,
      initiator: INITIATOR,
      servers: [{ name: server }],
      // A call that waits at its server waits for the whole drill.
      limits: { callTimeoutSeconds: 3_600 },
      ...over,
    },
  });
}

async function opened(run: RunHandle, count = 1): Promise<boolean> {
  return (await run.requests()).filter(({ status }) => status === 'open').length >= count;
}

/** A run of a model that waits once it has started. */
function kind(
  name: string,
  server: string,
  steps: NonNullable<Kind['steps']>,
  over: Partial<Omit<Kind, 'name' | 'steps'>> & { readonly spec?: Partial<RunSpecInput> } = {},
): Kind {
  const { spec, ...more } = over;
  return {
    name,
    calls: 1,
    steps,
    start: (scene, id) => start(scene, id, server, spec),
    waits: ({ countersign }, id) => opened(countersign.run(id)),
    ...more,
  };
}

const calls = (tool: string) => (id: string) => [once(tool, id), DONE];
const transfers = (id: string): Steps => [once('bank/transfer', id, { amount: 1 }), DONE];

async function interrupted(run: RunHandle): Promise<boolean> {
  return (await run.requests()).some(({ status }) => status === 'cancelled');
}

/** Waits for the first request of a run, and has ann answer it. A repeated start finds it answered. */
async function annFirst(scene: Scene, id: string, over: object = {}): Promise<void> {
  const run = scene.countersign.run(id);
  const [request] = await until(
    async () => {
      const requests = await run.requests();
      return requests.length > 0 ? requests : undefined;
    },
    { what: `a request of ${id}` },
  );
  if (request?.status === 'open' && request.votes === undefined) await approveBy(run, request, 'ann', over);
}

/** Finds the one change of a catalog that waits for a second administrator. */
async function pendingIn(scene: Scene, id: string) {
  const catalog = scene.countersign.catalog('bank', id);
  return { catalog, pending: (await catalog.snapshot()).pending[0] };
}

const LATER = 'Mind the other one, too.';

export const KINDS: readonly Kind[] = [
  kind('approval', 'bank', calls('bank/pay')),
  kind(
    'two requests',
    'bank',
    (id) => [{ calls: [true, false].map((yes) => ({ tool: 'bank/pay', arguments: { purpose: id, yes } })) }, DONE],
    { waits: ({ countersign }, id) => opened(countersign.run(id), 2) },
  ),
  kind('one of two votes', 'bank', transfers, {
    start: async (scene, id) => {
      await start(scene, id, 'bank');
      await annFirst(scene, id);
    },
    waits: async ({ countersign }, id) =>
      (await countersign.run(id).requests()).some(({ votes }) => votes?.length === 1),
  }),
  kind('edited', 'bank', transfers, {
    start: async (scene, id) => {
      await start(scene, id, 'bank');
      await annFirst(scene, id, { arguments: { purpose: id, amount: 2 } });
    },
    waits: async ({ countersign }, id) =>
      (await countersign.run(id).requests()).some(({ status, edited }) => status === 'open' && edited !== undefined),
    lost: async ({ servers }, id) =>
      servers.calls(id).every((call) => call.arguments['amount'] === 2) ? undefined : 'the edit of ann',
  }),
  kind(
    'real server',
    'files',
    (id, { files }) => [
      {
        calls: [
          {
            tool: 'files/edit_file',
            arguments: { path: fileOf(files, id), edits: [{ oldText: UNEDITED, newText: `${UNEDITED}+` }] },
          },
        ],
      },
      DONE,
    ],
    {
      start: async (scene, id) => {
        writeFileSync(fileOf(scene.servers.files, id), UNEDITED, { flag: 'a' });
        await start(scene, id, 'files');
      },
    },
  ),
  kind('question', 'desk', calls('desk/book')),
  kind('open question', 'held', calls('held/sign')),
  kind('unknown outcome', 'odd', calls('odd/lose')),
  kind('authorization', 'lent', calls('lent/open'), { spec: { grants: [{ server: 'lent', ref: STALE }] } }),
  kind('task of a server', 'tasks', calls('tasks/dig'), {
    waits: async ({ countersign }, id) => (await countersign.run(id).state()).tasks?.length === 1,
    free: async ({ servers }, id) => servers.finish(id),
  }),
  kind('server away', 'away', calls('away/lookup'), {
    waits: async (scene, id) => (await scene.activities(id)).includes('discoverTools'),
    free: async ({ servers }) => servers.comeBack(),
    isLast: true,
  }),
  kind(
    'limit of a server',
    'lane',
    (id) => [{ calls: [1, 2].map((number) => ({ tool: 'lane/slow', arguments: { purpose: id, number } })) }, DONE],
    {
      calls: 2,
      // One call is in flight, and held by the server; others are held back, and so are the lists of other runs.
      waits: async (scene, id) =>
        (await scene.countersign.run(id).ledger()).some(({ fact }) => fact.kind === 'held') ||
        (await scene.activities(id)).includes('discoverTools'),
      // Another run may hold the one place at the server.
      free: async ({ servers: { lane } }) => {
        for (const { arguments: given } of lane.calls)
          if (typeof given['purpose'] === 'string') lane.release(given['purpose']);
      },
    },
  ),
  kind('message', 'bank', (id) => [once('bank/pay', id), DONE, DONE], {
    start: async (scene, id) => {
      const run = await start(scene, id, 'bank');
      await until(async () => opened(run), { what: `a request of ${id}` });
      await run.say({ messageId: 'later', text: LATER, from: INITIATOR.id });
    },
    lost: async ({ countersign }, id) => {
      const said = await countersign.run(id).messages({ from: 0, to: 50 });
      const heard = said.filter((message) => JSON.stringify(message).includes(LATER)).length;
      return heard === 1 ? undefined : `the message, heard ${heard} times`;
    },
  }),
  kind(
    'interruption',
    'bank',
    (id) => [
      {
        calls: ['slow', 'pay'].map((tool) => ({ tool: `bank/${tool}`, arguments: { purpose: id } })),
      },
      once('bank/pay', id),
      DONE,
    ],
    {
      calls: 2,
      start: async (scene, id) => {
        const run = await start(scene, id, 'bank');
        if (await interrupted(run)) return;
        await until(async () => opened(run), { what: `a request of ${id}` });
        await scene.servers.bank.held(id);
        await run.say({ messageId: 'now', text: LATER, from: INITIATOR.id, interrupt: true });
      },
      waits: ({ countersign }, id) => interrupted(countersign.run(id)),
      free: async ({ servers }, id) => servers.bank.release(id),
    },
  ),
  {
    name: 'single call',
    calls: 1,
    start: ({ countersign }, id) => countersign.call(singleCall(id)),
    waits: ({ countersign }, id) => opened(countersign.run(id)),
  },
  {
    name: 'client away',
    calls: 1,
    start: async (scene, id) => {
      await scene.countersign.call({ ...singleCall(id), dispatch: 'on-return' });
      await annFirst(scene, id);
    },
    waits: async ({ countersign }, id) =>
      (await countersign.run(id).requests()).some(({ status }) => status === 'approved'),
    free: ({ countersign }, id) => countersign.run(id).present(Date.now() + 60_000),
  },
  {
    name: 'hosted call',
    calls: 1,
    start: async (scene, id) => {
      scene.servers.provider.script(id, [
        { calls: [{ server: 'far', tool: 'pay', arguments: { purpose: id } }] },
        DONE,
      ]);
      await start(scene, id, 'far', { agent: { name: 'clerk', model: HOSTED_MODEL } });
    },
    waits: ({ countersign }, id) => opened(countersign.run(id)),
  },
  {
    name: 'catalog',
    isRun: false,
    calls: 0,
    start: async (scene, id) => {
      const catalog = scene.countersign.catalog('bank', id);
      const { refresh = 0 } = await catalog.connect({
        requestId: 'connect',
        by: { id: 'ann' },
        url: scene.servers.bank.url,
      });
      await catalog.settled(refresh);
      const snapshot = await catalog.snapshot();
      const acknowledge = entryOf(snapshot, 'lookup')?.definition.hash ?? '';
      const changes = [{ tool: 'lookup', requiresApproval: false, acknowledge }];
      if (snapshot.pending.length === 0)
        await catalog.setToolPolicies({
          requestId: 'loosen',
          by: { id: 'ann' },
          expectedVersion: snapshot.policyVersion,
          changes,
        });
    },
    waits: async (scene, id) => (await pendingIn(scene, id)).pending !== undefined,
    free: async (scene, id) => {
      const { catalog, pending } = await pendingIn(scene, id);
      if (pending === undefined) return;
      const { changeId, digest } = pending;
      await catalog.decide({ requestId: 'agree', by: { id: 'zoe' }, changeId, digest, verdict: 'approve' });
    },
    isOver: async (scene, id) => (await pendingIn(scene, id)).pending === undefined,
    lost: async (scene, id) => {
      const { catalog } = await pendingIn(scene, id);
      const tool = entryOf(await catalog.snapshot(), 'lookup');
      return tool?.setting.requiresApproval === false ? undefined : 'the change of ann and zoe';
    },
    workflowId: ({ countersign }, id) => countersign.catalog('bank', id).workflowId,
  },
  {
    name: 'ticket',
    isRun: false,
    calls: 0,
    start: ({ countersign }, id) => countersign.tickets(KEEP_SECONDS).take(id),
    waits: async ({ countersign }, id) => (await countersign.tickets(KEEP_SECONDS).find(id)) !== undefined,
    free: async ({ countersign }, id) => {
      const tickets = countersign.tickets(KEEP_SECONDS);
      const ticket = await tickets.find(id);
      if (ticket !== undefined) tickets.delivering(ticket, Promise.resolve(true));
    },
  },
];

const KEEP_SECONDS = 604_800;

function singleCall(id: string) {
  return { runId: id, call: { server: 'bank', tool: 'pay', arguments: { purpose: id }, initiator: INITIATOR } };
}
