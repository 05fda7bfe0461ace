/**
 * Reads what a run left behind (executions, histories, transcript, ledger), and checks that all of it
 * replays.
 */
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from '@jest/globals';
import { defaultPayloadConverter } from '@temporalio/common';
import { historyToJSON } from '@temporalio/common/lib/proto-utils.js';
import { readSegment } from '../../../activities/run/read-transcript.ts';
import { listExecutions } from '../../../client/engine/executions.ts';
import type { RunHandle } from '../../../client/index.ts';
import { defined } from '../../../contracts/defined.ts';
import { CATALOG_WORKFLOW, DIGEST_WORKFLOW, QUERIES, RUN_WORKFLOW } from '../../../contracts/names.ts';
import { type LedgerEntry, type LedgerFact, Segment } from '../../../contracts/schemas/ledger.ts';
import type { TranscriptPage } from '../../../contracts/schemas/run-state.ts';
import type { CallResult, Message } from '../../../contracts/schemas/transcript.ts';
import type { Recorded } from '../../../workers/replay/recorded-history.ts';
import { replayHistories } from '../../../workers/replay/replay.ts';
import { answersOf, bundleForReading } from '../../../workers/replay/replayed-run.ts';
import { sharedBundle } from '../shared-bundle.ts';
import { until } from '../until.ts';
import type { World } from './world.ts';

/** The part of a world in which runs were started and left something behind. */
export type RecordedWorld = Pick<World, 'client' | 'artifacts' | 'bundle' | 'config' | 'runs'> &
  Partial<Pick<World, 'replaysAtEnd'>>;

type History = Extract<Recorded, { kind: 'history' }>['history'];
type Events = NonNullable<History['events']>;

/** Histories that did not replay. */
const UNREPLAYED = join(import.meta.dirname, '../../../.build/unreplayed');

export interface Execution {
  readonly runId: string;
  readonly history: History;
  readonly events: Events;
}

/** Returns every execution of a run that continue-as-new linked, oldest first. */
export async function executions({ client }: RecordedWorld, workflowId: string): Promise<readonly Execution[]> {
  const chain: Execution[] = [];
  for (
    let runId: string | undefined = (await client.workflow.getHandle(workflowId).describe()).runId;
    runId !== undefined && runId !== '';
  ) {
    const history: History = await client.workflow.getHandle(workflowId, runId).fetchHistory();
    const events = history.events ?? [];
    chain.unshift({ runId, history, events });
    runId = events[0]?.workflowExecutionStartedEventAttributes?.continuedExecutionRunId ?? undefined;
  }
  return chain;
}

/** Histories that were replayed, by the list of runs of a world: others may stand for the world itself. */
const replayed = new WeakMap<RecordedWorld['runs'], Set<string>>();

/**
 * Checks INV-D1: recorded histories replay on the code that recorded them.
 * @param workflowIds default: every run of the world that was not replayed before, however it was started
 * @throws if one does not replay, or if there is none
 */
export async function replayOwn(world: RecordedWorld, ...workflowIds: readonly string[]): Promise<void> {
  const before = replayed.get(world.runs) ?? new Set<string>();
  replayed.set(world.runs, before);
  const all = workflowIds.length > 0 ? workflowIds : await runsOf(world);
  // A world that replays again at its end may have no runs until then.
  if (all.length === 0 && world.replaysAtEnd !== true) throw new Error('there is no run to replay');
  const wanted = workflowIds.length > 0 ? all : all.filter((id) => !before.has(id));
  if (wanted.length === 0) return;
  const recorded: Recorded[] = [];
  for (const workflowId of wanted) {
    before.add(workflowId);
    for (const { runId, history } of await executions(world, workflowId))
      recorded.push({ kind: 'history', name: `${workflowId} ${runId}`, workflowId, history });
  }
  if (workflowIds.length > 0 && recorded.length === 0) throw new Error('nothing was recorded');
  for await (const { name, error } of replayHistories(recorded, {
    bundle: world.bundle,
    config: world.config,
    namespace: world.client.options.namespace,
  })) {
    if (error !== undefined) throw new Error(await keepUnreplayed(name, recorded), { cause: error });
  }
}

/** The server ends with the test. What cannot be replayed is kept, or nobody would ever know what happened. */
async function keepUnreplayed(name: string, recorded: readonly Recorded[]): Promise<string> {
  const found = recorded.find((each) => each.name === name);
  if (found?.kind !== 'history') return `${name} does not replay`;
  await mkdir(UNREPLAYED, { recursive: true });
  const path = join(UNREPLAYED, `${name.replaceAll(/[^\w-]+/g, '-')}.json`);
  await writeFile(path, historyToJSON(found.history));
  const events = (found.history.events ?? []).map((event) => {
    const [kind = ''] = Object.keys(event).filter((key) => key.endsWith('EventAttributes'));
    return `${Number(event.eventId)} ${kind.replace('EventAttributes', '')}`;
  });
  return `${name} does not replay: ${path}\n${events.join('\n')}`;
}

/**
 * Checks that the world has replayed something by its end; otherwise it shows nothing of INV-D1.
 * @throws if nothing was replayed
 */
export async function replayAtEnd(world: RecordedWorld): Promise<void> {
  await replayOwn(world);
  if ((replayed.get(world.runs)?.size ?? 0) === 0)
    throw new Error(
      `no run of queue ${world.config.taskQueue} was replayed: none was started (or \`-t\` left them out)`,
    );
}

/**
 * Lists runs through visibility, which also knows runs started without the world, a moment later than the world knows
 * its own.
 */
async function runsOf({ client, config, runs }: RecordedWorld): Promise<readonly string[]> {
  const types = [RUN_WORKFLOW, CATALOG_WORKFLOW, DIGEST_WORKFLOW].map((type) => `'${type}'`).join(', ');
  const query = `WorkflowType IN (${types}) AND TaskQueue = '${config.taskQueue}'`;
  const ids = new Set(runs);
  for await (const { workflowId } of listExecutions(client, query)) ids.add(workflowId);
  return [...ids];
}

/** Returns the whole conversation, from stored segments and the living execution. */
export async function transcript({ client, artifacts }: RecordedWorld, run: RunHandle): Promise<readonly Message[]> {
  const page = await client.workflow
    .getHandle(run.runId)
    .query<TranscriptPage, [number, number]>(QUERIES.transcript, 0, Number.MAX_SAFE_INTEGER);
  const stretches = [page.messages];
  for (let ref = page.segment; ref !== undefined;) {
    const segment = await readSegment(artifacts, ref);
    stretches.unshift(segment.transcript.messages);
    ref = segment.previous;
  }
  return stretches.flat();
}

/** The scripted model reports how many messages it was shown: in every turn, all that the transcript held before its answer. */
export async function expectModelSawAll(world: RecordedWorld, run: RunHandle): Promise<void> {
  const messages = await transcript(world, run);
  const before = messages.flatMap(({ role }, index) => (role === 'assistant' ? [index] : []));
  const shown = factsOf(await run.ledger(), 'turn.proposed').map(({ usage }) => usage.inputTokens);
  expect(shown).toEqual(before);
}

/** Returns what the model was told of each call, in order. */
export async function results(
  world: RecordedWorld,
  run: RunHandle,
): Promise<readonly Pick<CallResult, 'callId' | 'outcome' | 'edited'>[]> {
  return (await transcript(world, run))
    .flatMap((message) => (message.role === 'tool' ? message.results : []))
    .map(({ callId, outcome, edited }) => ({ callId, outcome, ...defined({ edited }) }));
}

export function factsOf<Kind extends LedgerFact['kind']>(
  ledger: readonly LedgerEntry[],
  kind: Kind,
  callId?: string,
): Extract<LedgerFact, { kind: Kind }>[] {
  return ledger
    .map(({ fact }) => fact)
    .filter(
      (fact): fact is Extract<LedgerFact, { kind: Kind }> =>
        fact.kind === kind && (callId === undefined || ('callId' in fact && fact.callId === callId)),
    );
}

/** Waits until the ledger holds a fact of this kind, for this call if one is named. */
export async function ledgerShows<Kind extends LedgerFact['kind']>(
  run: RunHandle,
  kind: Kind,
  callId?: string,
): Promise<Extract<LedgerFact, { kind: Kind }>> {
  return await until(async () => factsOf(await run.ledger(), kind, callId).at(-1), {
    what: `${kind} in the ledger of ${run.runId}`,
  });
}

/** Returns the outcome kind of each call, from the ledger. */
export async function outcomes(run: RunHandle): Promise<Readonly<Record<string, string>>> {
  return Object.fromEntries(factsOf(await run.ledger(), 'outcome').map(({ callId, outcome }) => [callId, outcome]));
}

/** Waits for the end of a run, and returns how each of its calls ended. */
export async function outcomesAtEnd(run: RunHandle): Promise<Readonly<Record<string, string>>> {
  await run.result();
  return await outcomes(run);
}

/** Returns the last input of each activity that a run scheduled, from history. */
export async function scheduledInputs(
  world: World,
  workflowId: string,
): Promise<ReadonlyMap<string, Readonly<Record<string, unknown>>>> {
  const inputs = new Map<string, Readonly<Record<string, unknown>>>();
  for (const { activityTaskScheduledEventAttributes: scheduled } of (await executions(world, workflowId)).flatMap(
    ({ events }) => events,
  )) {
    const name = scheduled?.activityType?.name;
    const payload = scheduled?.input?.payloads?.[0];
    if (name !== undefined && name !== null && payload !== undefined)
      inputs.set(name, defaultPayloadConverter.fromPayload(payload));
  }
  return inputs;
}

/** Reads the ledger from the artifact store, for a run that cannot be asked any more. */
export async function storedLedger(
  {
    engine,
    config,
    artifacts,
  }: Pick<World, 'config' | 'artifacts'> & { readonly engine: Pick<World['engine'], 'directory'> },
  run: Pick<RunHandle, 'runId'>,
): Promise<readonly LedgerEntry[]> {
  const folder = join(engine.directory, config.artifacts.directory);
  const files = await readdir(folder, { recursive: true, withFileTypes: true });
  const stored = await Promise.all(
    files.filter((file) => file.isFile()).map(async (file) => await readFile(join(file.parentPath, file.name))),
  );
  const segments = stored.flatMap((bytes) =>
    bytes.includes('"ledger"') ? (Segment.safeParse(JSON.parse(bytes.toString('utf8'))).data ?? []) : [],
  );
  const last = segments
    .filter(({ workflowId }) => workflowId === run.runId)
    .find(({ ledger }) => ledger.entries.at(-1)?.fact.kind === 'run.ended');
  const stretches = [last?.ledger.entries ?? []];
  for (let ref = last?.previous; ref !== undefined;) {
    const segment = await readSegment(artifacts, ref);
    stretches.unshift(segment.ledger.entries);
    ref = segment.previous;
  }
  return stretches.flat();
}

/**
 * Reads the ledger of a run that is over from where its record is kept, without asking the run: from the artifact
 * store, or from Temporal's history, replayed where nothing of the run is known (docs/adr/0059).
 */
export async function recordedLedger(world: World, { runId: workflowId }: RunHandle): Promise<readonly LedgerEntry[]> {
  const stored = await storedLedger(world, { runId: workflowId });
  const chain = await executions(world, workflowId);
  const [newest] = chain.slice(-1);
  const keptByHistory = chain.length === 1 && stored.length === 0;
  if (!keptByHistory || newest === undefined) return stored;
  const options = {
    bundle: await sharedBundle(bundleForReading),
    config: world.config,
    namespace: world.engine.server.namespace,
  };
  return (await answersOf(workflowId, newest, options)).answers.ledger?.entries ?? [];
}

/** Returns what a refused message must leave unchanged. */
export async function traceOf(
  { client }: RecordedWorld,
  workflowId: string,
): Promise<{ readonly historyLength: number; readonly types: readonly string[] }> {
  const handle = client.workflow.getHandle(workflowId);
  const { historyLength } = await handle.describe();
  const { events } = await handle.fetchHistory();
  return { historyLength, types: (events ?? []).map(({ eventType }) => String(eventType)) };
}

/** Returns the run's current details, as Temporal UI shows them. */
export async function detailsOf({ client }: Pick<RecordedWorld, 'client'>, workflowId: string): Promise<string> {
  const handle = client.workflow.getHandle(workflowId);
  const { currentDetails = '' } = await handle.query<{ currentDetails?: string }>('__temporal_workflow_metadata');
  return currentDetails;
}

export async function codeOf(promise: Promise<unknown>): Promise<string> {
  return (await refusalOf(promise)).code;
}

export async function refusalOf(
  promise: Promise<unknown>,
): Promise<{ readonly code: string; readonly message: string; readonly facts: Readonly<Record<string, unknown>> }> {
  try {
    await promise;
  } catch (error) {
    if (error instanceof Error && 'code' in error && 'facts' in error) {
      return { code: String(error.code), message: error.message, facts: error.facts as Record<string, unknown> };
    }
    throw error;
  }
  throw new Error('it was not refused');
}
