/**
 * Builds the input of a dispatch: the call, and every proof that lets it leave. The dispatch proves each of them again
 * (INV-G1). A listing of tools takes its proofs of grants from here, too.
 */
import { workflowInfo } from '@temporalio/workflow';
import { defined } from '../../contracts/defined.ts';
import { READ_RESOURCE } from '../../contracts/names.ts';
import type { ServerBinding } from '../../contracts/schemas/tool.ts';
import type { Authorized, Consent, MadeDecision, OpenRequest, Retry } from '../../contracts/wire/carry.ts';
import type { DispatchProof, RetryProof } from '../../contracts/wire/proofs.ts';
import type { DiscoverInput, DispatchInput } from '../../contracts/wire/tools.ts';
import { isStaged } from '../../domain/policy/approvers.ts';
import { authorizationsOf } from '../../domain/request/authorization.ts';
import { instantOf } from '../../domain/request/deadline.ts';
import { shownToEditor } from '../../domain/request/edit.ts';
import { pauseProof, provisionProof } from '../../domain/request/pause.ts';
import { proofOf } from '../../domain/request/standing.ts';
import { dispatchOf, type DispatchParts } from '../../domain/run/turn.ts';
import { linkTo } from '../../domain/run/resource-link.ts';
import { type Dispatched, grantsFor, type InFlight } from '../../domain/state/run.ts';
import type { LiveRun } from './live-run.ts';

type DecisionProof = Extract<DispatchProof, { kind: 'decision' }>;

export function dispatchInput(live: LiveRun, state: InFlight): DispatchInput {
  const { spec, prepared, toolset, decidedIn } = live;
  const { consent } = state;
  const parts: DispatchParts = {
    run: live.identity,
    runId: workflowInfo().runId,
    decidedIn,
    toolset,
    limits: prepared.limits,
    ...live.earlier,
    ...live.signedSpec,
    ...defined({ runPolicy: spec.policy, grants: spec.grants, tasks: prepared.tasks }),
  };
  const shown = state.edit === undefined ? undefined : shownToEditor(state);
  const standing = live.run.standing?.find(({ id }) => id === consent?.made.standing);
  return dispatchOf(parts, state, serverOf(live, state), live.run.calls, {
    ...(consent === undefined
      ? {}
      : { proof: standing === undefined ? decisionProof(consent, shown) : proofOf(standing) }),
    ...(state.retry === undefined ? {} : { retry: retryProof(state.retry) }),
    ...defined({ mayHaveRun: state.again }),
    ...inputTo(live, state),
    ...authorizationProofs(live, state),
    ...linkOf(live, state),
    ...holdOf(live, state),
    resumable: true,
  });
}

function decisionProof({ made, request }: Consent, edit: DecisionProof['edit']): DecisionProof {
  return {
    kind: 'decision',
    decision: made.decision,
    ...(made.further === undefined ? {} : { further: made.further.map(({ decision }) => decision) }),
    generation: request.generation,
    approvers: request.approvers,
    ...deadlineOf(request),
    decidedAt: instantOf(made.decidedAt),
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

function deadlineOf({ openedAt, deadline, extended }: OpenRequest): Pick<DecisionProof, 'deadline' | 'extended'> {
  if (extended === undefined) return { deadline: instantOf(deadline) };
  const by = extended.by.map(({ decision, decidedAt }) => ({ decision, decidedAt: instantOf(decidedAt) }));
  return { deadline: instantOf(extended.from), extended: { openedAt: instantOf(openedAt), by } };
}

function votedAt(
  { approvers, openedAt }: OpenRequest,
  { further = [] }: MadeDecision,
  edit: DecisionProof['edit'],
): Pick<DecisionProof, 'voted'> {
  if (![approvers, ...(edit === undefined ? [] : [edit.approvers])].some(isStaged)) return {};
  return { voted: { openedAt: instantOf(openedAt), further: further.map(({ decidedAt }) => instantOf(decidedAt)) } };
}

function authorizationProofs({ run }: LiveRun, state: InFlight): Pick<DispatchInput, 'authorizations'> {
  if (state.authorized === undefined && run.grants === undefined) return {};
  return proofsOf(authorizationsOf(run, state));
}

/** Gives the answers so far and the point at which the server resumes the call, if the run can wait for input. */
function inputTo(live: LiveRun, { input }: InFlight): Pick<DispatchInput, 'input'> {
  if (!live.asksAbout('input')) return {};
  return {
    input: input === undefined ? { provided: [] } : { provided: input.provided.map(provisionProof), leg: input.leg },
  };
}

/** Gives a listing the grant that replaced the run's own, and the Temporal runs in which it may have been given. */
export function grantProofs(live: LiveRun, server: string): Pick<DiscoverInput, 'authorizations' | 'decidedIn'> {
  const given = grantsFor(live.run, server);
  return given.length === 0 ? {} : { ...proofsOf(given), decidedIn: live.decidedIn };
}

function proofsOf(given: readonly Authorized[]): Pick<DispatchInput, 'authorizations'> {
  if (given.length === 0) return {};
  return {
    authorizations: given.map(({ answer, further, ...shown }) => ({
      answer,
      ...pauseProof(shown),
      ...(further === undefined
        ? {}
        : { further: further.map((each) => ({ answer: each.answer, decidedAt: instantOf(each.decidedAt) })) }),
    })),
  };
}

function retryProof({ resolution, ...shown }: Retry): RetryProof {
  return { resolution, ...pauseProof(shown) };
}

/** How long in all a server may wait for people, in seconds. A read of a resource is no call and gets none. */
export function holdOf(live: LiveRun, { judgement }: InFlight): Pick<DispatchInput, 'hold'> {
  const { server, tool } = judgement.target;
  const seconds = live.prepared.servers.find(({ name }) => name === server)?.holdSeconds;
  if (seconds === undefined || tool === READ_RESOURCE || !live.asksAbout('input')) return {};
  return { hold: { seconds } };
}
