/**
 * Writes the history of a run as it stands, and the messages that the run refuses at that point.
 *
 * 1. An existing file is never written again: recorded histories are not edited (README of the corpus).
 * 2. A refused message is really sent, and its code must be the one that the scenario expects.
 * 3. A history that names this machine is refused before it is written, and so is one that this build cannot replay.
 */
import { access, writeFile } from 'node:fs/promises';
import { homedir, hostname, tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { WorkflowExecutionDescription, WorkflowHandle } from '@temporalio/client';
import { historyFromJSON, historyToJSON } from '@temporalio/common/lib/proto-utils.js';
import { CountersignError, type ErrorCode } from '../../../contracts/errors.ts';
import { codedFailureIn } from '../../../contracts/failure.ts';
import type { DecisionInput } from '../../../contracts/schemas/request.ts';
import type { WorkflowBundle } from '../../../workers/bundle.ts';
import { bundleForReading } from '../../../workers/replay/replayed-run.ts';
import { compareHistories } from '../../../workers/replay/semantics.ts';
import { until } from '../../support/until.ts';
import type { Expected } from './scene.ts';
import { CORPUS_ENCRYPTION, type Deployment } from './stage.ts';

/** Prefix of the points of catalogs, since points of runs may have the same names. */
export const CATALOG = 'catalog/';

/** Prefix of the points of tickets. */
export const TICKET = 'ticket/';

/** Prefix of the points of digests. */
export const DIGEST = 'digest/';

/** Type of a history, by the prefix of its point. */
const TYPES = [
  [CATALOG, 'tool-catalog'],
  [TICKET, 'call-ticket'],
  [DIGEST, 'message-digest'],
] as const;

/** Returns the name of the history of a point, without its ending. */
export function historyNameOf(point: string): string {
  const [prefix, type] = TYPES.find(([each]) => point.startsWith(each)) ?? ['', 'agent-run'];
  return `${type}.${point.slice(prefix.length)}`;
}

/** Name of the list of a release: names and SHA-256 of its files, as `sha256sum` writes them. */
export const LIST = 'SHA256SUMS';

export function folderOf(version: string): string {
  return fileURLToPath(new URL(`../histories/${version}`, import.meta.url));
}

/** Encrypted ones are no `.json`: `countersign replay` reads every such file, and has no key for these. */
export function fileOf(name: string): string {
  return `${name}.${name.endsWith('encrypted') ? 'sealed' : 'json'}`;
}

export interface Taken {
  readonly refused?: readonly Expected[];
  /** Messages that are sent after the history is taken. */
  readonly accepted?: readonly Attempt[];
  /** Temporal run id of an execution that is not the newest of its run. */
  readonly runId?: string;
}

export class Recording {
  readonly #folder: string;
  readonly written: string[] = [];
  #bundle: Promise<WorkflowBundle> | undefined;

  constructor(folder: string) {
    this.#folder = folder;
  }

  #historyOf(point: string): string {
    return join(this.#folder, fileOf(historyNameOf(point)));
  }

  /** Refuses a folder that is complete: nothing is added to a release. */
  async assertUnlisted(): Promise<void> {
    await assertFree(join(this.#folder, LIST));
  }

  async assertNew(point: string): Promise<void> {
    await assertFree(this.#historyOf(point));
  }

  async take(
    deployment: Deployment,
    workflowId: string,
    point: string,
    { refused = [], accepted = [], runId }: Taken,
  ): Promise<void> {
    await this.assertNew(point);
    const handle = deployment.client.workflow.getHandle(workflowId, runId);
    const { raw, runId: asked } = await atRest(handle);
    const isOpen = (raw.workflowExecutionInfo?.closeTime ?? undefined) === undefined;
    const send = sender(deployment, workflowId, asked, isOpen);
    const notTaken: RefusedAttempt[] = [];
    for (const attempt of refused) notTaken.push(await refusedBy(send, attempt, isOpen, point));
    const history = historyToJSON(await handle.fetchHistory());
    const taken: AcceptedAttempt[] = [];
    for (const attempt of accepted) taken.push(await acceptedBy(send, attempt));
    const inputs: RecordedInputs = { workflowId, runId: asked, refused: notTaken, accepted: taken };
    await this.#assertReplayable(point, workflowId, history);
    await this.#write(this.#historyOf(point), onePerLine(history));
    await this.#write(
      join(this.#folder, `${historyNameOf(point)}.inputs.json`),
      `${JSON.stringify(inputs, null, 2)}\n`,
    );
  }

  async #assertReplayable(point: string, workflowId: string, text: string): Promise<void> {
    this.#bundle ??= bundleForReading();
    const recorded = [
      { kind: 'history', name: point, workflowId, history: historyFromJSON(JSON.parse(text)) },
    ] as const;
    for await (const { error } of compareHistories(recorded, {
      bundle: await this.#bundle,
      config: { encryption: CORPUS_ENCRYPTION },
    })) {
      if (error !== undefined)
        throw new CountersignError(
          'REPLAY_FAILED',
          `${point} does not replay as it ran. ${error.message}`,
          {},
          { cause: error },
        );
    }
  }

  async #write(path: string, text: string): Promise<void> {
    assertNeutral(path, text);
    await writeFile(path, text, { flag: 'wx' });
    this.written.push(path);
  }
}

async function assertFree(path: string): Promise<void> {
  const exists = await access(path).then(
    () => true,
    () => false,
  );
  if (exists)
    throw new Error(`${path} exists; recorded histories are never changed. Record into another folder: --out`);
}

/** Waits until no workflow task of the run is pending. */
export async function atRest(handle: WorkflowHandle): Promise<WorkflowExecutionDescription> {
  return await until(
    async () => {
      const description = await handle.describe();
      return description.raw.pendingWorkflowTask ? undefined : description;
    },
    { what: `rest of ${handle.workflowId}` },
  );
}

type Send = (attempt: Attempt) => Promise<unknown>;

export function sender({ client, countersign }: Deployment, workflowId: string, runId: string, isOpen: boolean): Send {
  if (!isOpen) {
    // Nobody can answer for a closed run, so the client library tells its end. Sound: the library parses the input.
    return ({ input }) => countersign.run(workflowId).decide(input as DecisionInput);
  }
  // The library would itself refuse a message of the wrong shape, so the message is sent without it.
  return ({ name, update, input }) =>
    client.workflow
      .getHandle(workflowId, runId)
      .executeUpdate(update, { args: [input], updateId: name.replaceAll(' ', '-') });
}

export async function refusedBy(
  send: Send,
  { code: expected, ...attempt }: Expected,
  isOpen: boolean,
  point: string,
): Promise<RefusedAttempt> {
  const at = new Date().toISOString();
  let code: string | undefined;
  try {
    await send(attempt);
  } catch (error) {
    code = codedFailureIn(error)?.code ?? String(error);
  }
  if (code !== expected)
    throw new CountersignError(
      'INTERNAL',
      `${point}: ${attempt.name} was answered with ${code ?? 'yes'}, not with ${expected}.`,
    );
  return { ...attempt, code: expected, answeredBy: isOpen ? 'run' : 'engine', at };
}

export async function acceptedBy(send: Send, attempt: Attempt): Promise<AcceptedAttempt> {
  const at = new Date().toISOString();
  await send(attempt);
  return { ...attempt, at };
}

/** Writes one event per line, so that people can compare histories. */
function onePerLine(history: string): string {
  // Sound: `historyToJSON` writes one object with a list of events.
  const { events } = JSON.parse(history) as { readonly events: readonly unknown[] };
  return `{"events":[\n${events.map((event) => JSON.stringify(event)).join(',\n')}\n]}\n`;
}

function assertNeutral(path: string, text: string): void {
  const named = [homedir(), process.cwd(), tmpdir(), `@${hostname()}`, `${userInfo().username}@`, 'file://'].filter(
    (name) => [text, inClear(text)].some((where) => where.includes(name)),
  );
  if (named.length > 0) throw new Error(`${path} would name this machine: ${named.join(', ')}`);
}

/** Decodes payloads, which stand in base64. */
function inClear(text: string): string {
  return [...text.matchAll(/"data":\s*"([A-Za-z0-9+/]+=*)"/g)]
    .map(([, data = '']) => Buffer.from(data, 'base64').toString('utf8'))
    .join('\n');
}

// Gives the shape of the file beside a recorded history: messages sent to the run at that point, and its
// answers.

export interface Attempt {
  /** Says in words what is wrong with the message. */
  readonly name: string;
  readonly update:
    | 'decide'
    | 'say'
    | 'inputAsked'
    | 'stop'
    | 'forget'
    | 'resolveOutcome'
    | 'provideInput'
    | 'authorize'
    | 'connect'
    | 'refresh'
    | 'setToolPolicies'
    | 'disconnect';
  readonly input: unknown;
}

export interface RefusedAttempt extends Attempt {
  readonly code: ErrorCode;
  /** `run`: the run's validator refused. `engine`: the run was over, so nobody asked it. */
  readonly answeredBy: 'run' | 'engine';
  /** Time of sending; a refusal may depend on it. */
  readonly at: string;
}

export interface AcceptedAttempt extends Attempt {
  readonly at: string;
}

export interface RecordedInputs {
  readonly workflowId: string;
  /** The Temporal run that was asked. */
  readonly runId: string;
  readonly refused: readonly RefusedAttempt[];
  /**
   * Messages that were sent after the history was taken, and accepted. They show that the run does not refuse
   * everything.
   */
  readonly accepted: readonly AcceptedAttempt[];
}
