/** The organisation's policy while workers run: a changed file acts at the next judgement and the next dispatch, without a restart. */
import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { policyVersionOf } from '../../activities/policy/judge.ts';
import { Config, type ConfigInput } from '../../contracts/schemas/config.ts';
import type { RecordingServer } from '../support/servers/recording-server.ts';
import { until } from '../support/until.ts';
import { startBank } from '../support/world/bank-world.ts';
import { factsOf, outcomes } from '../support/world/run-record.ts';
import { decisionOn, openRequests, type World } from '../support/world/world.ts';

type PolicyOf = NonNullable<ConfigInput['policy']>;

const ASKS: PolicyOf = {
  strategy: 'never',
  rules: [{ id: 'pay', match: { tool: 'pay' }, then: 'ask', approvers: { ids: ['ann'] } }],
};

let bank: RecordingServer;
let world: World;
let directory: string;
let path: string;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'countersign-live-'));
  path = join(directory, 'countersign.yaml');
  await writeFile(path, JSON.stringify({ policy: ASKS }));
  ({ bank, world } = await startBank({ taskQueue: 'live', policy: ASKS }, { path }));
});
afterAll(async () => {
  await world.stop();
  await rm(directory, { recursive: true, force: true });
});

const END = { text: 'done' };
const pay = (purpose: string) => ({ tool: 'bank/pay', arguments: { purpose } });
const look = (purpose: string) => ({ tool: 'bank/lookup', arguments: { purpose } });

/** Written as an editor does, and in force for the worker: a run is judged by it. */
async function inForce(policy: PolicyOf): Promise<void> {
  await writeFile(`${path}.new`, JSON.stringify({ policy }));
  await rename(`${path}.new`, path);
  const { servers } = world.config;
  const version = policyVersionOf({ ...world.config, policy: Config.parse({ policy }).policy, servers });
  await until(
    async () => {
      const probe = await world.start([{ calls: [look('probe')] }, END]);
      await probe.result();
      return factsOf(await probe.ledger(), 'verdict')[0]?.policyVersion === version;
    },
    { what: 'the changed policy in force' },
  );
}

/** A call that waits, approved under another policy than the one that it was asked under. */
async function approvedUnder(purpose: string, policy: PolicyOf, steps: Parameters<World['start']>[0] = [END]) {
  await inForce(ASKS);
  const run = await world.start([{ calls: [pay(purpose)] }, ...steps]);
  const [request] = await openRequests(run);
  await inForce(policy);
  await run.decide(decisionOn(request, 'ann'));
  return run;
}

describe('a halt', () => {
  test('INV-G1: refuses what was countersigned, with its own code and the reason, and the model hears not to call (D-5)', async () => {
    const told = { when: { call: 0, textIncludes: 'Call none of them again' }, then: { text: 'understood' } };
    const run = await approvedUnder('halted', { ...ASKS, halt: { reason: 'Money is missing.' } }, [
      { text: 'lost', branches: [told] },
    ]);
    expect(await run.result()).toMatchObject({ output: 'understood' });
    expect(factsOf(await run.ledger(), 'outcome')).toMatchObject([{ outcome: 'denied', code: 'ORGANISATION_HALTED' }]);
    expect(bank.callsFor('halted')).toEqual([]);
  });

  test('denies at once what is proposed meanwhile; when it is over the same call runs', async () => {
    await inForce({ ...ASKS, halt: { reason: 'Money is missing.', servers: ['bank'] } });
    const halted = await world.start([{ calls: [look('meanwhile')] }, END]);
    await halted.result();
    expect(factsOf(await halted.ledger(), 'verdict')).toMatchObject([
      { verdict: 'deny', rules: ['organisation/halt'] },
    ]);
    expect(bank.callsFor('meanwhile')).toEqual([]);
    await inForce(ASKS);
    await (await world.start([{ calls: [look('meanwhile')] }, END])).result();
    expect(bank.callsFor('meanwhile')).toHaveLength(1);
  });
});

describe('what was approved', () => {
  test('and is denied by a rule of now, is refused with its name and its words (D-5)', async () => {
    const frozen = { id: 'frozen', match: { tool: 'pay' }, then: 'deny' as const, explain: 'The quarter is closed.' };
    const told = {
      when: { call: 0, textIncludes: 'organisation/rules/frozen. The quarter is closed.' },
      then: { text: 'understood' },
    };
    const run = await approvedUnder('frozen', { strategy: 'never', rules: [frozen] }, [
      { text: 'lost', branches: [told] },
    ]);
    expect(await run.result()).toMatchObject({ output: 'understood' });
    expect(await outcomes(run)).toEqual({ 't1.c0': 'denied' });
    expect(bank.callsFor('frozen')).toEqual([]);
  });

  test('by somebody whom the rule of now does not name is asked again, of whom it names', async () => {
    const rules = [
      { id: 'pay', match: { tool: 'pay' }, then: 'ask' as const, approvers: { ids: ['eve'] }, explain: 'Ann left.' },
    ];
    const run = await approvedUnder('stricter', { strategy: 'never', rules });
    const request = await until(async () => (await run.requests()).find(({ generation }) => generation === 2), {
      what: 'the call asked again',
    });
    expect(request).toMatchObject({
      approvers: { allOf: [{ ids: ['eve'] }] },
      reopenedBecause: expect.stringContaining('Ann left.'),
    });
    await run.decide(decisionOn(request, 'eve'));
    await run.result();
    expect(bank.callsFor('stricter')).toHaveLength(1);
  });
});

test('a looser policy changes nothing for what waits', async () => {
  await inForce(ASKS);
  const run = await world.start([{ calls: [pay('waits')] }, END]);
  const [request] = await openRequests(run);
  await inForce({ strategy: 'never' });
  expect((await run.state()).status).toBe('waiting');
  expect(bank.callsFor('waits')).toEqual([]);
  await run.decide(decisionOn(request, 'ann'));
  await run.result();
  expect(bank.callsFor('waits')).toHaveLength(1);
});

test('E-2, J: broken glass lets a call pass, and the ledger says which rule, why and until when', async () => {
  const breakGlass = { reason: 'The pager is down.', until: new Date(Date.now() + 3_600_000).toISOString() };
  await inForce({
    ...ASKS,
    rules: [{ id: 'glass', match: { tool: 'pay' }, then: 'allow', breakGlass }, ...(ASKS.rules ?? [])],
  });
  const run = await world.start([{ calls: [pay('glass')] }, END]);
  await run.result();
  expect(bank.callsFor('glass')).toHaveLength(1);
  expect(factsOf(await run.ledger(), 'verdict')).toMatchObject([
    {
      verdict: 'allow',
      rules: ['organisation/rules/glass (break glass)', 'organisation/rules/pay'],
      breakGlass: { rule: 'organisation/rules/glass', ...breakGlass },
    },
  ]);
});
