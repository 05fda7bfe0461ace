/**
 * Builds the input of a dispatch: the call, and every proof that lets it leave. The dispatch proves each of them again
 * (INV-G1).
 */
import { workflowInfo } from '@temporalio/workflow';
import { defined } from '../../contracts/defined.ts';
import { READ_RESOURCE } from '../../contracts/names.ts';
import type { ServerBinding } from '../../contracts/schemas/tool.ts';
import type { DispatchInput } from '../../contracts/wire/tools.ts';
import { isStaged } from '../../domain/policy/approvers.ts';
import type { Dispatched, InFlight } from '../../domain/state/call.ts';
import { shownToEditor } from '../../domain/request/edit.ts';
import { earlierThan, resultRoom } from '../../domain/run/limits.ts';
import { linkTo } from '../../domain/run/resource-link.ts';
import { holdOf } from '../legacy-2025/open-question.ts';
import type { LiveRun } from './live-run.ts';
import { authorizationProofs, inputTo, retryProof } from './pauses.ts';
import { standingProof } from './standing.ts';
import type { DispatchProof } from '../../contracts/wire/proofs.ts';
import type { Consent, MadeDecision, OpenRequest } from '../../contracts/wire/carry.ts';

type DecisionProof = Extract<DispatchProof, { kind: 'decision' }>;

/** Builds the input for one dispatch of a call in flight. */
export function dispatchInput(live: LiveRun, state: InFlight): DispatchInput {
  const { call, judgement, attempts, consent } = state;
  const { spec, prepared } = live;
  const server = serverOf(live, state);
  const grant = spec.grants?.find((entry) => entry.server === server.name);
  const { runId, workflowId } = workflowInfo();
  const shown = shownToEditor(state);
  return {
    run: live.identity,
    runId,
    decidedIn: live.decidedIn,
    callId: call.callId,
    name: call.name,
    target: judgement.target,
    arguments: call.arguments,
    proof:
      standingProof(live, state) ??
      (consent === undefined ? { kind: 'policy', rules: judgement.verdict.rules } : decisionProof(consent, shown)),
    ...(state.retry === undefined ? {} : { retry: retryProof(state.retry) }),
    ...inputTo(live, state),
    ...authorizationProofs(live, state),
    ...linkOf(live, state),
    ...holdOf(live, state),
    toolset: live.toolset,
    ...defined({ runPolicy: spec.policy }),
    ...(live.earlier.earlier === undefined
      ? {}
      : { earlier: earlierThan(live.earlier.earlier, live.run.calls, call.callId) }),
    server,
    ...defined({ grant }),
    limits: {
      ...resultRoom(prepared.limits, live.run.calls),
      callTimeoutSeconds: prepared.limits.callTimeoutSeconds,
    },
    attempt: attempts,
    // The key stays the same across attempts, continue-as-new and reset, because the call is the same call.
    idempotencyKey: `${workflowId}/${call.callId}`,
    ...defined({ tasks: prepared.tasks }),
    ...live.signedSpec,
    ...(prepared.lostAnswers === undefined ? {} : { resumable: true }),
  };
}

function decisionProof({ made, request }: Consent, edit: DecisionProof['edit']): DecisionProof {
  return {
    kind: 'decision',
    decision: made.decision,
    ...(made.further === undefined ? {} : { further: made.further.map(({ decision }) => decision) }),
    generation: request.generation,
    approvers: request.approvers,
    ...deadlineOf(request),
    decidedAt: instant(made.decidedAt),
    ...defined({ edit }),
    ...votedAt(request, made, edit),
  };
}

export function serverOf({ prepared }: LiveRun, { judgement }: Dispatched): ServerBinding {
  const server = prepared.servers.find(({ name }) => name === judgement.target.server);
  // The judge resolves targets among these servers only.
  if (server === undefined) throw new Error(`no server ${judgement.target.server}`);
  return server;
}

/** Names the message that holds the link of a read; the dispatch looks it up there. */
function linkOf({ run }: LiveRun, { call, judgement }: InFlight): Pick<DispatchInput, 'link'> {
  const { server, tool } = judgement.target;
  const link = tool === READ_RESOURCE ? linkTo(run, server, call.arguments) : undefined;
  return link === undefined ? {} : { link: { at: link.at } };
}

/** Gives the original deadline, and the extensions that led to the final one. */
function deadlineOf({ openedAt, deadline, extended }: OpenRequest): Pick<DecisionProof, 'deadline' | 'extended'> {
  if (extended === undefined) return { deadline: instant(deadline) };
  const by = extended.by.map(({ decision, decidedAt }) => ({ decision, decidedAt: instant(decidedAt) }));
  return { deadline: instant(extended.from), extended: { openedAt: instant(openedAt), by } };
}

/** Gives the time of each vote, if the rule lets time decide who may vote. */
function votedAt(
  { approvers, openedAt }: OpenRequest,
  { further = [] }: MadeDecision,
  edit: DecisionProof['edit'],
): Pick<DecisionProof, 'voted'> {
  if (![approvers, ...(edit === undefined ? [] : [edit.approvers])].some(isStaged)) return {};
  return { voted: { openedAt: instant(openedAt), further: further.map(({ decidedAt }) => instant(decidedAt)) } };
}

function instant(ms: number): string {
  return new Date(ms).toISOString();
}
