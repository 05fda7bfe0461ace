/**
 * Builds the input of a dispatch: the call, and every proof that lets it leave. The dispatch proves each of them again
 * (INV-G1). A listing of tools takes its proofs of grants from here, too.
 */
import { workflowInfo } from '@temporalio/workflow';
import { defined } from '../../contracts/defined.ts';
import { READ_RESOURCE } from '../../contracts/names.ts';
import type { ServerBinding } from '../../contracts/schemas/tool.ts';
import type { Authorized, Consent, MadeDecision, OpenRequest } from '../../contracts/wire/carry.ts';
import type { DispatchProof } from '../../contracts/wire/proofs.ts';
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
  const { retry, input } = state;
  const { server, tool } = state.judgement.target;
  const standing = live.run.standing?.find(({ id }) => id === consent?.made.standing);
  const provided = (input?.provided ?? []).map(provisionProof);
  // The message that holds the link of a read: the dispatch looks it up there.
  const link = tool === READ_RESOURCE ? linkTo(live.run, server, state.call.arguments) : undefined;
  return dispatchOf(parts, state, serverOf(live, state), live.run.calls, {
    ...defined({
      proof: consent && (standing === undefined ? decisionProof(consent, shownToEditor(state)) : proofOf(standing)),
      retry: retry && { resolution: retry.resolution, ...pauseProof(retry) },
      mayHaveRun: state.again,
      input: live.asksAbout('input') ? { provided, ...defined({ leg: input?.leg }) } : undefined,
    }),
    ...proofsOf(authorizationsOf(live.run, state)),
    ...(link === undefined ? {} : { link: { at: link.at } }),
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

/** How long in all a server may wait for people, in seconds. A read of a resource is no call and gets none. */
export function holdOf(live: LiveRun, { judgement }: InFlight): Pick<DispatchInput, 'hold'> {
  const { server, tool } = judgement.target;
  const seconds = live.prepared.servers.find(({ name }) => name === server)?.holdSeconds;
  if (seconds === undefined || tool === READ_RESOURCE || !live.asksAbout('input')) return {};
  return { hold: { seconds } };
}
