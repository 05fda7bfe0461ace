/** Collects everything that a run leaves anywhere, as stored bytes. */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { historyToJSON } from '@temporalio/common/lib/proto-utils.js';
import { Countersign } from '../../../client/index.ts';
import { nodeCodeOf } from '../../../contracts/errors.ts';
import { QUERIES } from '../../../contracts/names.ts';
import { runCommand } from '../cli.ts';
import type { FaultWorld } from '../faults/world.ts';
import { executions, type RecordedWorld } from '../world/run-record.ts';
import { CanaryScanner, type Sighting } from './scan.ts';

export const STORES = [
  'history',
  'exported history',
  'failures',
  'memo',
  'search attributes',
  'heartbeat details',
  'queries',
  'SQLite file',
  'artifacts',
  'ledger directory',
  'vault',
  'ledger webhook',
  'messages',
  'logs',
  'command line',
  'client errors',
] as const;
export type Store = (typeof STORES)[number];

/** What callers of a gateway and operators read, beside the stores of every deployment. */
type Told = 'answers of the gate' | 'metrics';

export interface Piece {
  readonly store: Store | Told;
  readonly place: string;
  readonly content: Uint8Array | string;
}

/** Collects what Temporal holds of one run, and what anybody can ask that run. */
export async function piecesOfRun(world: FaultWorld, workflowId: string): Promise<readonly Piece[]> {
  const queries = [QUERIES.state, QUERIES.requests, QUERIES.transcript, QUERIES.ledger];
  const { status } = await world.client.workflow.getHandle(workflowId).describe();
  // These two commands wait for the end of a run.
  const waiting = status.name === 'RUNNING' ? [] : ['watch', 'result'];
  const commands = ['show', 'requests', 'ledger', 'verify-ledger', ...waiting];
  return [
    ...(await historyPieces(world, workflowId)),
    ...(await describedPieces(world, workflowId)),
    ...(await queriedPieces(world, workflowId, queries)),
    ...(await printedPieces(
      world,
      commands.map((command) => [command, workflowId]),
    )),
  ];
}

/**
 * Collects the same of one catalog, and the artifacts whose hashes are in its snapshot.
 * @param tools are shown one by one
 */
export async function piecesOfCatalog(
  world: FaultWorld,
  server: string,
  tools: readonly string[] = [],
): Promise<readonly Piece[]> {
  const catalog = world.countersign.catalog(server);
  const { workflowId } = catalog;
  return [
    ...(await historyPieces(world, workflowId)),
    ...(await describedPieces(world, workflowId)),
    ...(await queriedPieces(world, workflowId, [QUERIES.snapshot, QUERIES.ledger])),
    {
      store: 'queries',
      place: `${workflowId} definitions`,
      content: inspected(await catalog.definitions(await catalog.snapshot())),
    },
    ...(await printedPieces(world, [
      ['catalog', 'list'],
      ...['list', 'show', 'diff', 'export'].map((command) => ['catalog', command, server]),
      ...tools.map((tool) => ['catalog', 'show', server, tool]),
      ['ledger', workflowId],
      ['verify-ledger', workflowId],
    ])),
  ];
}

async function historyPieces(world: FaultWorld, workflowId: string): Promise<readonly Piece[]> {
  const pieces: Piece[] = [];
  for (const { runId, history, events } of await executions(world, workflowId)) {
    const place = `${workflowId} ${runId}`;
    pieces.push({ store: 'exported history', place, content: historyToJSON(history) });
    for (const event of events) {
      const at = `${place} event ${String(event.eventId)}`;
      pieces.push(...leavesOf(event, 'history', at));
      pieces.push(...failuresIn(event).flatMap((failure) => leavesOf(failure, 'failures', at)));
    }
  }
  return pieces;
}

/** Finds these values in the exported history of a run. */
export async function sightingsInHistory(
  world: RecordedWorld,
  workflowId: string,
  values: readonly string[],
): Promise<readonly Sighting[]> {
  const scanner = new CanaryScanner(values.map((value) => ({ name: value.slice(0, 12), value })));
  const found = await executions(world, workflowId);
  return found.flatMap(({ runId, history }) => scanner.scan(runId, historyToJSON(history)));
}

/** Stores and forms in which one of the values stands, each once. @param values by the name under which they are told */
export function sightings(values: Readonly<Record<string, string>>, pieces: readonly Piece[]): readonly string[] {
  const scanner = new CanaryScanner(Object.entries(values).map(([name, value]) => ({ name, value })));
  const found = pieces.flatMap(({ store, place, content }) =>
    scanner.scan(place, content).map(({ canary, form }) => `${canary} in ${store} as ${form}`),
  );
  return [...new Set(found)];
}

/** Collects memo, search attributes, heartbeat details and last failures of pending activities. */
export async function describedPieces({ client }: FaultWorld, workflowId: string): Promise<readonly Piece[]> {
  const { connection, options } = client;
  const { workflowExecutionInfo: info, pendingActivities } = await connection.workflowService.describeWorkflowExecution(
    {
      namespace: options.namespace,
      execution: { workflowId },
    },
  );
  return [
    ...leavesOf(info?.memo, 'memo', workflowId),
    ...leavesOf(info?.searchAttributes, 'search attributes', workflowId),
    ...(pendingActivities ?? []).flatMap(({ heartbeatDetails, lastFailure, activityId }) => [
      ...leavesOf(heartbeatDetails, 'heartbeat details', `${workflowId} activity ${activityId}`),
      ...leavesOf(lastFailure, 'failures', `${workflowId} activity ${activityId}`),
    ]),
  ];
}

async function queriedPieces({ client }: FaultWorld, workflowId: string, queries: readonly string[]): Promise<Piece[]> {
  const handle = client.workflow.getHandle(workflowId);
  // Temporal UI sends this query; current details are in its answer.
  const answers = ['__temporal_workflow_metadata', ...queries].map(async (query) => {
    const stretch = query === QUERIES.transcript || query === QUERIES.ledger ? [0, 1_000] : [];
    // A run that failed before it could answer gives the error instead.
    const answer: unknown = await handle.query(query, ...stretch).catch((error: unknown) => error);
    return { store: 'queries', place: `${workflowId} ${query}`, content: inspected(answer) } as const;
  });
  return await Promise.all(answers);
}

async function printedPieces(
  { configFile, engine }: FaultWorld,
  commands: readonly (readonly string[])[],
): Promise<Piece[]> {
  const pieces: Piece[] = [];
  for (const command of commands) {
    for (const format of [[], ['--json']]) {
      const whole = [...command, ...format];
      const where = ['--config', configFile, '--address', engine.server.address];
      const { out, err } = await runCommand([...whole, ...where]);
      pieces.push({ store: 'command line', place: `countersign ${whole.join(' ')}`, content: `${out}\n${err}` });
    }
  }
  return pieces;
}

/** Collects the files on disk. */
export async function storedPieces({ engine, config }: FaultWorld): Promise<readonly Piece[]> {
  const { ledger, vault, artifacts } = config;
  const inFolder = async (store: Store, folder: string | undefined, prefix = ''): Promise<readonly Piece[]> => {
    if (folder === undefined) return [];
    const found = await readdir(join(engine.directory, folder), { recursive: true, withFileTypes: true });
    const files = found.filter((entry) => entry.isFile() && entry.name.startsWith(prefix));
    const paths = files.map(({ parentPath, name }) => join(parentPath, name));
    const pieces = paths.map(async (place) => {
      const content = await readFile(place).catch((error: unknown) => {
        // Temporal's database removes its journal at any time: what has gone since it was listed lies nowhere.
        if (nodeCodeOf(error) === 'ENOENT') return undefined;
        throw error;
      });
      return content === undefined ? [] : [{ store, place, content }];
    });
    return (await Promise.all(pieces)).flat();
  };
  return [
    ...(await inFolder('vault', vault?.kind === 'directory' ? vault.directory : undefined)),
    ...(await inFolder('SQLite file', '.', 'temporal.db')),
    ...(await inFolder('artifacts', artifacts.directory)),
    ...(await inFolder('ledger directory', ledger?.directory)),
  ];
}

/** Collects the error of a client's call as any code that prints errors sees it: causes, facts, hidden fields. */
export async function failedPiece(place: string, call: Promise<unknown>): Promise<Piece> {
  const error = await call.then(
    () => {
      throw new Error(`${place} did not fail`);
    },
    (reason: unknown) => reason,
  );
  return {
    store: 'client errors',
    place,
    content: inspected(error),
  };
}

/** Prints a value with everything that any printing code can see of it. */
function inspected(value: unknown): string {
  return inspect(value, {
    depth: Infinity,
    showHidden: true,
    maxStringLength: Infinity,
    maxArrayLength: Infinity,
    // Long arrays laid out in columns take seconds, and a text with line breaks would be written in pieces.
    compact: false,
    breakLength: Infinity,
  });
}

/** Collects the results of runs as a client waits for them, if they are errors. */
export async function endedPieces({ client }: FaultWorld, runs: readonly string[]): Promise<readonly Piece[]> {
  const countersign = new Countersign({ client });
  return await Promise.all(runs.map((runId) => failedPiece(`result of ${runId}`, countersign.run(runId).result())));
}

/** Returns failures: every event that reports one has it in its attributes. */
function failuresIn(event: object): unknown[] {
  const attributes: unknown[] = Object.values(event);
  return attributes.flatMap((each) =>
    typeof each === 'object' && each !== null && 'failure' in each ? [each.failure] : [],
  );
}

/** Collects every string and byte array in a message, at any depth. */
function leavesOf(value: unknown, store: Store, place: string): Piece[] {
  if (typeof value === 'string' || isBytes(value)) return [{ store, place, content: value }];
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => [
    { store, place, content: key },
    ...leavesOf(inner, store, place),
  ]);
}

/** `instanceof` is not used, since jest has more than one realm. */
function isBytes(value: unknown): value is Uint8Array {
  return ArrayBuffer.isView(value);
}
