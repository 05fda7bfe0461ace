/**
 * Seals what a run keeps of a task between two polls; the seal is also the proof that the call has left.
 *
 * It owns when the ids of a task are in clear: in this process, for one poll (INV-S1). It does not own the sealing
 * (`activities/mcp/state-seal.ts`).
 * 1. Only a worker of the zone can make the seal, for a call that has passed the gate and was sent (INV-G1). A poll
 *    need not prove that again. A seal that does not open, or that names another run, gets no token.
 * 2. The seal names for whom the call was made and with which authority; a poll has no other, and none that is wider
 *    (INV-S2).
 */
import { defined } from '../../../contracts/defined.ts';
import type { TokenEvidence } from '../../../contracts/schemas/call.ts';
import type { Config } from '../../../contracts/schemas/config.ts';
import type { SealedState } from '../../../contracts/schemas/input.ts';
import type { TaskSettings } from '../../../contracts/schemas/legacy-2025.ts';
import type { ToolDefinition } from '../../../contracts/schemas/tool.ts';
import type { PollInput } from '../../../contracts/wire/legacy-2025.ts';
import type { DispatchInput, DispatchResult, ResumeInput } from '../../../contracts/wire/tools.ts';
import { hashOf } from '../../../domain/text/canonical.ts';
import type { CallEnding, ResumePoint, TaskId, WantedTask } from '../../mcp/port.ts';
import { callBinding, type SealBinding, type StateSeal } from '../../mcp/state-seal.ts';
import { authorizationOf, type CallAuthority } from '../../discovery/access.ts';
import { ownValue } from '../../kit/json.ts';

/** Time kept beyond the task's own, in ms, so that a result which is ready in time can still be fetched. */
const KEPT_LONGER_MS = 600_000;

type Begun = Extract<CallEnding, { kind: 'task' }>;

interface SealedTask extends TaskId, CallAuthority {
  readonly run: string;
}

export interface TaskWish {
  readonly task?: WantedTask;
  /** Why this run cannot call the tool, which can only be called as a task. */
  readonly refused?: string;
}

/**
 * Decides whether the call is to be a task. The server's word on the tool counts; if the tool may be called either way,
 * the operator's configuration decides.
 */
export function taskWish(
  { tasks, server, limits }: Pick<DispatchInput, 'tasks' | 'server' | 'limits'>,
  { name, taskSupport }: ToolDefinition,
  config: Pick<Config, 'servers'>,
  seal: StateSeal | undefined,
): TaskWish {
  const settings = settingsOf(config, server.name);
  const only = taskSupport === 'required';
  if (!only && (taskSupport !== 'optional' || settings?.optional.includes(name) !== true)) return {};
  const reason =
    tasks !== true
      ? 'the run does not wait for tasks: configure `tasks` of its server ({} is enough), and start the run again'
      : seal === undefined
        ? 'this worker cannot seal what finds a task again: configure a key in grants.keys'
        : undefined;
  if (reason !== undefined) return only ? { refused: reason } : {};
  return { task: { ttlMs: secondsOf(limits, settings) * 1_000 + KEPT_LONGER_MS, only } };
}

function settingsOf({ servers }: Pick<Config, 'servers'>, server: string): TaskSettings | undefined {
  return ownValue(servers, server)?.tasks;
}

function secondsOf({ callTimeoutSeconds }: DispatchInput['limits'], settings: TaskSettings | undefined): number {
  return settings?.seconds ?? callTimeoutSeconds;
}

export function noTask({ target, server }: DispatchInput, reason: string): DispatchResult {
  const message = `Tool "${target.tool}" of server "${server.name}" can only be called as a task; it was not called: ${reason}.`;
  return { kind: 'ended', outcome: { kind: 'failed', code: 'TOOL_REFUSED', message, executed: false } };
}

export async function taskResult(
  ending: Begun,
  input: DispatchInput,
  { config, seal }: { readonly config: Pick<Config, 'servers'>; readonly seal?: StateSeal | undefined },
  authority: CallAuthority,
  leftAt: string | undefined,
  token: TokenEvidence,
): Promise<DispatchResult> {
  // A task is asked for only if there is a seal (`taskWish`).
  if (seal === undefined) throw new Error('a task was begun that nothing can seal');
  const { id, pollMs, ttlMs, message } = ending;
  const sentAt = Date.parse(leftAt ?? new Date().toISOString());
  const ownMs = secondsOf(input.limits, settingsOf(config, input.server.name)) * 1_000;
  const sealed: SealedTask = { ...id, ...authority, run: hashOf(input.run) };
  return {
    kind: 'task',
    token,
    task: {
      sealed: await seal.seal(JSON.stringify(sealed), taskBindingOf(input)),
      sentAt: new Date(sentAt).toISOString(),
      // The server forgets the task at that time.
      until: new Date(sentAt + Math.min(ownMs, ttlMs ?? ownMs)).toISOString(),
      ...defined({ pollMs, message }),
    },
  };
}

export async function openedTask(input: PollInput, seal: StateSeal | undefined) {
  const text = await seal?.open(input.sealed, taskBindingOf(input));
  if (text === undefined) return undefined;
  // Sound: only `taskResult` above seals for this use.
  const { run, grant, consented, shown, ...id } = JSON.parse(text) as SealedTask;
  const authority = { ...(grant && { grant }), ...(consented && { consented }), shown };
  const authorization = authorizationOf(authority, input.grants ?? []);
  return run !== hashOf(input.run) || authorization === undefined ? undefined : { id, authorization, shown };
}

/** Binds to the dispatch that began it, and to the server and tool for which a poll's token is (INV-S2). */
function taskBindingOf(input: Pick<DispatchInput, 'run' | 'callId' | 'attempt' | 'server' | 'target'>): SealBinding {
  return { use: 'task', ...callBinding(input), attempt: input.attempt };
}

/**
 * The place where a call's answer comes, with the authority of the call: in clear in the worker that sent the call and
 * the one that asks for its answer alone (INV-S1). If it opens, a worker of the zone had sent exactly this call
 * (INV-G1).
 */
export interface LeftBehind {
  readonly point: ResumePoint;
  readonly authority: CallAuthority;
}

export async function sealPoint(input: DispatchInput, left: LeftBehind, seal: StateSeal): Promise<SealedState> {
  return await seal.seal(JSON.stringify(left), resumeBindingOf(input));
}

export async function openPoint(input: ResumeInput, seal: StateSeal | undefined): Promise<LeftBehind | undefined> {
  const text = await seal?.open(input.resume, resumeBindingOf(input));
  // Sound: only `sealPoint` seals under this binding, and what it seals has this form.
  return text === undefined ? undefined : (JSON.parse(text) as LeftBehind);
}

/** A call that another Temporal run sent counts as another call. */
function resumeBindingOf(input: DispatchInput): SealBinding {
  const { runId, attempt, arguments: args } = input;
  return { answerTo: 'tools/call', ...callBinding(input), runId, attempt, argumentsHash: hashOf(args) };
}
