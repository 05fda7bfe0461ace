/** One catalog for a long life: many refreshes and changes, many tools, and the limit of what it hands on (S3.2, S3.6, INV-D3). */
import { afterEach, describe, expect, jest, test } from '@jest/globals';
import type { Tool } from '@modelcontextprotocol/server';
import { defaultPayloadConverter } from '@temporalio/common';
import {
  assertIntact,
  type CatalogAck,
  type CatalogHandle,
  type CatalogSnapshot,
  CountersignError,
} from '../../client/index.ts';
import type { SetToolPolicies, SetToolPoliciesInput, ToolSetting } from '../../contracts/schemas/catalog.ts';
import type { LedgerEntry } from '../../contracts/schemas/ledger.ts';
import { CATALOG_BYTES, type CatalogCarry } from '../../domain/catalog/carry.ts';
import { ADMINISTRATORS, ANN, connected } from '../support/scenes/catalogs.ts';
import { startRawServer } from '../support/servers/raw-server.ts';
import { startRecordingServer } from '../support/servers/recording-server.ts';
import { CatalogModel, changeNumber, listedIn } from '../support/stories/catalog.ts';
import { codeOf, executions, factsOf, refusalOf, replayOwn } from '../support/world/run-record.ts';
import { during } from '../support/world/during.ts';
import { useEngine, useWorld } from '../support/world/world.ts';

jest.setTimeout(300_000);
/** By hand, with executions as long as the server's defaults make them: 200. */
const BY_HAND = Number(process.env['COUNTERSIGN_ROUNDS']) || 0;
/** Two executions and a part of the third. */
const ROUNDS = BY_HAND || 42;
/** The server suggests another execution after the events of some 17 rounds. */
const SUGGESTED = BY_HAND > 0 ? [] : ['limit.historyCount.suggestContinueAsNew=1400'];
const CHANGES_A_ROUND = 10;
const HALVES = [
  [0, 12],
  [12, 25],
] as const;
/** Messages that a catalog remembers. */
const REMEMBERED = 200;

/** What the first server lists now. */
const tools: Tool[] = [];
const tracker = during(() => startRecordingServer({ tools }));
const wide = during(() => startRawServer({ era: 'modern', pages: pagesOf(1_000, 128) }));
const narrow = during(() => startRawServer({ era: 'modern', pages: pagesOf(25, 20) }));
const engine = useEngine({ dynamicConfig: SUGGESTED });
const world = useWorld(() => {
  const origins = [tracker, wide, narrow].map(({ url }) => new URL(url).origin);
  return { engine, config: { catalog: { administrators: ADMINISTRATORS, origins } } };
});
afterEach(async () => replayOwn(world));

/** Twenty to a page, each name so long. */
function pagesOf(count: number, length: number): object[][] {
  const all = Array.from({ length: count }, (_, index) => ({
    name: `${String(index).padStart(4, '0')}-${'x'.repeat(length)}`.slice(0, length),
    description: `Does ${index}.`,
    inputSchema: { type: 'object' },
  }));
  return Array.from({ length: Math.ceil(count / 20) }, (_, page) => all.slice(20 * page, 20 * (page + 1)));
}

async function currentRun({ workflowId }: CatalogHandle): Promise<string> {
  return (await world.client.workflow.getHandle(workflowId).describe()).runId;
}

describe('many refreshes, with changes beside and behind each', () => {
  test('the catalog at the end is what a plain model says, its ledger is whole, and what was sent before a continue-as-new counts once', async () => {
    const model = new CatalogModel();
    const catalog = world.countersign.catalog('tracker');
    tools.push(...listedIn(0));
    model.refresh(0);
    await connected(catalog, tracker.url);
    const sent: { readonly message: SetToolPolicies; readonly ack: CatalogAck }[] = [];
    const send = async (message: Pick<SetToolPolicies, 'requestId' | 'changes'>): Promise<void> => {
      const whole = { ...message, by: { ...ANN, groups: [] }, expectedVersion: model.policyVersion };
      const ack = await catalog.setToolPolicies(whole);
      model.change(whole.changes);
      expect(ack).toEqual({ requestId: whole.requestId, status: 'applied', policyVersion: model.policyVersion });
      sent.push({ message: whole, ack });
    };
    let runId = await currentRun(catalog);
    let rolls = 0;
    for (let round = 1; round <= ROUNDS; round += 1) {
      tools.splice(0, tools.length, ...listedIn(round));
      const { refresh = 0 } = await catalog.refresh({ by: ANN });
      const settling = catalog.settled(refresh);
      // Beside the refresh: what operators say of a tool does not wait for what its server says.
      for (let n = 1; n < CHANGES_A_ROUND; n += 1) {
        const number = CHANGES_A_ROUND * (round - 1) + n;
        await send({ requestId: `change-${number}`, changes: [changeNumber(number)] });
      }
      expect(await settling).toMatchObject({ ok: true, refresh: round + 1 });
      model.refresh(round);
      const number = CHANGES_A_ROUND * round;
      const snapshot = await catalog.snapshot();
      const change = changeNumber(number);
      const looked = snapshot.entries.find(({ name }) => name === change.tool);
      // Nobody can say what a missing tool is.
      const acknowledge = looked?.status === 'available' ? { acknowledge: looked.definition.hash } : {};
      await send({ requestId: `change-${number}`, changes: [{ ...change, ...acknowledge }] });

      const now = await currentRun(catalog);
      if (now === runId) continue;
      [runId, rolls] = [now, rolls + 1];
      // Of the newest 200 messages, refreshes among them, some were answered by the execution that has ended.
      for (const { message, ack } of sent.slice(-REMEMBERED + 2 * (REMEMBERED / CHANGES_A_ROUND)).slice(0, 15))
        expect(await catalog.setToolPolicies(message)).toEqual(ack);
      expect((await catalog.snapshot()).policyVersion).toBe(model.policyVersion);
    }
    expect(rolls).toBeGreaterThanOrEqual(2);
    // Forgotten long ago: the version that it was made for keeps it from counting again.
    const [oldest] = sent;
    if (oldest === undefined) throw new Error('nothing was sent');
    expect(await codeOf(catalog.setToolPolicies(oldest.message))).toBe('CATALOG_VERSION_CONFLICT');

    const snapshot = await catalog.snapshot();
    expect(snapshot).toMatchObject({ policyVersion: 1 + ROUNDS * CHANGES_A_ROUND, refreshes: ROUNDS + 1 });
    expect(await seenIn(catalog, snapshot)).toEqual(model.tools());
    const ledger = await catalog.ledger();
    expect(assertIntact(ledger, catalog.workflowId)).toMatchObject({ kind: 'intact' });
    expect([ledger.length, ledger.at(-1)?.hash]).toEqual([snapshot.ledgerLength, snapshot.ledgerHead]);
    expectWhole(ledger, model);
  });
});

/** What the snapshot says of each tool, with definitions by their text. */
async function seenIn(catalog: CatalogHandle, snapshot: CatalogSnapshot) {
  const definitions = await catalog.definitions(snapshot);
  return snapshot.entries.map(({ name, status, setting, definition }) => ({
    name,
    status,
    setting,
    refresh: definition.refresh,
    current: definitions.get(name)?.current.description,
    acknowledged: definitions.get(name)?.acknowledged?.description,
  }));
}

function expectWhole(ledger: readonly LedgerEntry[], model: CatalogModel): void {
  expect(
    factsOf(ledger, 'catalog.refreshed').map(({ refresh, added, missing, returned, changed }) => ({
      refresh,
      added,
      missing,
      returned,
      changed: changed.map(({ tool }) => tool),
    })),
  ).toEqual(model.refreshes);
  expect(factsOf(ledger, 'catalog.policy').map(({ policyVersion }) => policyVersion)).toEqual(
    Array.from({ length: ROUNDS * CHANGES_A_ROUND }, (_, index) => index + 2),
  );
  expect(
    factsOf(ledger, 'catalog.policy').flatMap(({ changes }) =>
      changes.map(({ tool, before, after }) => ({ tool, before, after })),
    ),
  ).toEqual(model.edits);
  const kinds = new Set(ledger.map(({ fact }) => fact.kind));
  expect(kinds).toEqual(new Set(['catalog.connected', 'catalog.refreshed', 'catalog.policy', 'catalog.rolled']));
}

/** The catalog as the newest execution was given it, in bytes of its payload. */
async function carried({ workflowId }: CatalogHandle) {
  const [newest] = (await executions(world, workflowId)).slice(-1);
  const payload = newest?.events[0]?.workflowExecutionStartedEventAttributes?.input?.payloads?.[1];
  if (payload === undefined || payload === null) throw new Error('nothing was carried');
  // Sound: the second argument of the workflow, as it wrote it.
  const carry = defaultPayloadConverter.fromPayload<CatalogCarry>(payload);
  return { carry, bytes: payload.data?.length ?? 0 };
}

/** Changes without a pause until the catalog has continued as new. */
async function changedUntilRolled(
  catalog: CatalogHandle,
  next: (n: number) => SetToolPoliciesInput['changes'],
): Promise<void> {
  const before = await currentRun(catalog);
  for (let n = 0; (await currentRun(catalog)) === before; n += 1) {
    if (n > 200) throw new Error('it does not continue as new');
    const { policyVersion } = await catalog.snapshot();
    try {
      await catalog.setToolPolicies({ by: ANN, expectedVersion: policyVersion, changes: next(n) });
    } catch (error) {
      // It hands over, and more has come meanwhile than it can carry.
      if (!(error instanceof CountersignError && error.code === 'CATALOG_UNAVAILABLE')) throw error;
    }
  }
}

describe('a thousand tools with long names', () => {
  test('are listed, changed in one batch, asked for, and handed on; beyond the limit nothing is changed', async () => {
    const catalog = world.countersign.catalog('wide');
    const first = await connected(catalog, wide.url);
    expect(first.entries).toHaveLength(1_000);
    const names = first.entries.map(({ name }) => name);
    const all = (over: Partial<ToolSetting>) => names.map((tool) => ({ tool, ...over }));
    const { policyVersion } = first;
    const ack = await catalog.setToolPolicies({
      by: ANN,
      expectedVersion: policyVersion,
      changes: all({ requiresApproval: false, approvers: { ids: ['bob'], groups: ['treasury'] } }),
    });
    expect(ack).toMatchObject({ status: 'applied', policyVersion: policyVersion + 1 });
    await changedUntilRolled(catalog, (n) => all({ deadlineSeconds: 60 + n }));
    const { carry, bytes } = await carried(catalog);
    expect(carry.catalog.entries).toHaveLength(1_000);
    expect(bytes).toBeLessThan(2 * CATALOG_BYTES);

    const before = await catalog.snapshot();
    expect(new Set(before.entries.map(({ setting }) => JSON.stringify(setting))).size).toBe(1);
    expect(before.entries[0]?.setting).toMatchObject({ approvers: { ids: ['bob'], groups: ['treasury'] } });
    const ids = Array.from({ length: 15 }, (_, index) => `approver-${index}-${'x'.repeat(30)}`);
    const change = all({ approvers: { ids, groups: [] } });
    const tooMuch = { by: ANN, expectedVersion: before.policyVersion, changes: change };
    expect(await refusalOf(catalog.setToolPolicies(tooMuch))).toMatchObject({
      code: 'LIMIT_REACHED',
      facts: { limit: 'catalog' },
    });
    expect(await catalog.snapshot()).toEqual(before);
    assertIntact(await catalog.ledger(), catalog.workflowId);
  });
});

describe('a catalog that is as full as it may be', () => {
  /** Some forty kilobytes. */
  const list = (mark: string) => {
    const names = (letter: string) =>
      Array.from({ length: 100 }, (_, index) => `${mark}${index}-${letter.repeat(185)}`);
    return { ids: names('x'), groups: names('y') };
  };

  test('can be changed, refreshed, read and handed on, and takes what makes it smaller', async () => {
    const catalog = world.countersign.catalog('narrow');
    const { entries } = await connected(catalog, narrow.url);
    const each = (approvers: ToolSetting['approvers'] | null) => entries.map(({ name }) => ({ tool: name, approvers }));
    await catalog.setToolPolicies({ by: ANN, expectedVersion: 1, changes: each(list('a')) });
    const full = await catalog.snapshot();
    expect(JSON.stringify(full).length).toBeGreaterThan(0.9 * CATALOG_BYTES);

    // From what to what is more than an entry of the ledger may hold.
    const anew = { by: ANN, expectedVersion: 2, changes: each(list('b')) };
    expect(await refusalOf(catalog.setToolPolicies(anew))).toMatchObject({
      code: 'LIMIT_REACHED',
      facts: { limit: 'catalogChange' },
    });
    expect(await catalog.snapshot()).toEqual(full);

    for (let rolls = 0; rolls < 2; rolls += 1)
      await changedUntilRolled(catalog, (n) => each(list(n % 4 < 2 ? 'b' : 'a')).slice(...HALVES[n % 2 === 0 ? 0 : 1]));
    const { bytes } = await carried(catalog);
    expect(bytes).toBeGreaterThan(0.9 * CATALOG_BYTES);
    expect(bytes).toBeLessThan(2 * CATALOG_BYTES);
    const { refresh = 0 } = await catalog.refresh({ by: ANN });
    expect(await catalog.settled(refresh)).toMatchObject({ ok: true, refresh });
    const { policyVersion } = await catalog.snapshot();
    await catalog.setToolPolicies({ by: ANN, expectedVersion: policyVersion, changes: each(null) });
    const { entries: after, ledgerLength, ledgerHead } = await catalog.snapshot();
    expect(after.map(({ setting }) => setting.approvers)).toEqual(entries.map(() => undefined));
    const ledger = await catalog.ledger();
    assertIntact(ledger, catalog.workflowId);
    expect([ledger.length, ledger.at(-1)?.hash]).toEqual([ledgerLength, ledgerHead]);
  });
});
