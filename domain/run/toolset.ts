/**
 * Gives the tools of a run the names that a model uses, and makes a refused list a request to people.
 *
 * 1. Lossless: a model name means exactly one (server, original tool name), whatever characters the original has.
 * 2. Deterministic: the same tools give the same names, in any order of servers.
 * 3. A name is `server__tool` if that is legal for every provider and means one tool; else it carries a hash.
 * 4. A tool that a server lists twice is offered once, as first listed.
 */
import { defined } from '../../contracts/defined.ts';
import { type CallId, callIdOf, isListing } from '../../contracts/names.ts';
import type { AuthorizationPause } from '../../contracts/schemas/request.ts';
import type { Grant } from '../../contracts/schemas/run-spec.ts';
import type { Discovery, ServerBinding, ServerTools, ToolDefinition } from '../../contracts/schemas/tool.ts';
import type { Settled } from '../../contracts/wire/carry.ts';
import type { RunIdentity, ToolsetRef } from '../../contracts/wire/identity.ts';
import type { AuthorizationNeed } from '../../contracts/wire/proofs.ts';
import type { PreparedRun } from '../../contracts/wire/run.ts';
import type { DiscoverInput } from '../../contracts/wire/tools.ts';
import { authorizationPause } from '../request/authorization.ts';
import { requestOpenedFact } from '../request/digest.ts';
import { paused, type Pausing } from '../request/pause.ts';
import { callOf, type Change, type InFlight, replaceCall, resolvedOf, type Run, type RunIds } from '../state/run.ts';
import { canonicalJson, hashOf } from '../text/canonical.ts';

export interface OfferedTool extends Omit<ServerTools, 'tools'> {
  /** The name that the model sees: `^[a-zA-Z0-9_-]{1,64}$`, the strictest of the providers. */
  readonly modelName: string;
  readonly definition: ToolDefinition;
  readonly hash: string;
}

export interface ToolsetPart {
  readonly tools: ServerTools;
  /** Original names; absent means all. */
  readonly allowedTools?: readonly string[];
}

const LEGAL = /^[a-zA-Z0-9_-]{1,64}$/;
/** Hex digits, 64 bits: enough that a server cannot search for a name that collides with one of another server. */
const HASH_LENGTH = 16;
const HASHED = new RegExp(`_[0-9a-f]{${HASH_LENGTH}}$`);

export function assembleToolset(parts: readonly ToolsetPart[]): OfferedTool[] {
  const allowed = parts.flatMap(({ tools: { tools, ...from }, allowedTools }) =>
    tools
      .filter(({ definition }) => allowedTools === undefined || allowedTools.includes(definition.name))
      .map((tool) => ({ ...from, ...tool })),
  );
  const seen = new Set<string>();
  const offered = allowed.filter(({ server, definition }) => {
    const pair = canonicalJson([server, definition.name]);
    return !seen.has(pair) && seen.add(pair);
  });
  const uses = new Map<string, number>();
  for (const tool of offered) {
    const plain = plainName(tool.server, tool.definition.name);
    uses.set(plain, (uses.get(plain) ?? 0) + 1);
  }
  return offered.map((tool) => {
    const plain = plainName(tool.server, tool.definition.name);
    // A plain name that ends like a hashed one is hashed too, so that the two kinds never collide.
    const usable = LEGAL.test(plain) && uses.get(plain) === 1 && !HASHED.test(plain);
    return { ...tool, modelName: usable ? plain : hashedName(tool.server, tool.definition.name) };
  });
}

function plainName(server: string, tool: string): string {
  return `${server}__${tool}`;
}

function hashedName(server: string, tool: string): string {
  // JSON keeps pairs apart: two pairs never give the same text, whatever characters they have.
  const hash = hashOf([server, tool]).slice(0, HASH_LENGTH);
  const readable = plainName(server, tool).replaceAll(/[^a-zA-Z0-9_-]/g, '_');
  return `${readable.slice(0, 64 - HASH_LENGTH - 1)}_${hash}`;
}

// Turns a refused `tools/list` into a request to people, if a missing grant is the reason (docs/adr/0043).
//
// 1. The list stands among the calls as a call of turn 0, so that it is shown, answered and carried like other
//    requests. No model proposed the list: it is not counted, not dispatched and not told to a model.
// 2. People are asked about a list as often as about a call (`MOST_AUTHORIZATIONS`), and not more.

const LIST = 'tools/list';

/** Opens a request for the authorization; undefined once the list was asked about too often. */
export function listingAsked(
  run: Run,
  { server, index }: { readonly server: Pick<ServerBinding, 'name' | 'url'>; readonly index: number },
  need: AuthorizationNeed,
  pausing: Pausing,
  ids: RunIds,
): Change | undefined {
  const before = callOf(run, listingId(index));
  const state: InFlight =
    before?.status === 'cleared' ? { status: 'in-flight', ...resolvedOf(before) } : firstOf(server, index);
  const about: AuthorizationPause | undefined = authorizationPause(state, need);
  if (about === undefined) return undefined;
  const next = paused(state, about, pausing);
  const asked = before === undefined ? { ...run, calls: [...run.calls, next] } : replaceCall(run, next);
  return { run: asked, facts: [requestOpenedFact(next, ids)] };
}

/** Removes the lists once all of them are there; the following turns have no such calls. */
export function listed(run: Run): Run {
  return { ...run, calls: run.calls.filter(({ call }) => !isListing(call.callId)) };
}

export function whyEnded({ request, outcome }: Settled): Pick<AuthorizationNeed, 'reason' | 'message'> {
  const about = request?.about;
  if (about?.kind !== 'authorization') return { reason: 'INTERNAL', message: 'The list of tools was ended.' };
  const { reason, message } = about;
  if (outcome.kind === 'rejected')
    return { reason, message: `${message} ${outcome.by} gives no other: ${outcome.reason}` };
  if (outcome.kind === 'expired')
    return { reason, message: `${message} Nobody gave another one by ${outcome.deadline}.` };
  return { reason, message };
}

function firstOf({ name, url }: Pick<ServerBinding, 'name' | 'url'>, index: number): InFlight {
  const callId = listingId(index);
  return {
    status: 'in-flight',
    call: { callId, providerCallId: '', name: LIST, arguments: {} },
    judgement: {
      callId,
      verdict: { kind: 'allow', rules: ['default/list-tools'] },
      repeatable: true,
      // A list has no definition; the constant hash keeps repeated requests alike.
      target: { server: name, serverUrl: url, tool: LIST, definitionHash: hashOf(LIST) },
    },
    attempts: 0,
  };
}

/** Id of a list as a call of turn 0, in which no model proposes calls. @param index of the server in the run */
export function listingId(index: number): CallId {
  return callIdOf(0, index);
}

export function listingInput(
  run: RunIdentity,
  grants: readonly Grant[] | undefined,
  { listings, tasks, links }: Partial<Pick<PreparedRun, 'listings' | 'tasks' | 'links'>>,
  server: ServerBinding,
  signed: Partial<Pick<DiscoverInput, 'signedSpec'>> = {},
): DiscoverInput {
  const grant = grants?.find((entry) => entry.server === server.name);
  return {
    run,
    server,
    ...defined({ grant }),
    ...signed,
    ...(listings === undefined ? {} : { mayAsk: true }),
    ...defined({ tasks }),
    ...(links?.includes(server.name) === true ? { links: true } : {}),
  };
}

/** @param found in the order of the servers */
export function toolsetOf(found: readonly Discovery[], servers: readonly ServerBinding[]): ToolsetRef[] {
  return found.map(({ tools, server, grantExpiresAt }, index) => {
    const allowedTools = servers[index]?.allowedTools;
    return { server, tools, ...defined({ allowedTools, grantExpiresAt }) };
  });
}
