/**
 * The people of a drill: they answer whatever a run asks, until it is over. Where the run asks what became of a call,
 * they look at the server, as people do.
 */
import type { RunHandle } from '../../client/index.ts';
import type { ConfigInput } from '../../contracts/schemas/config.ts';
import type { InputResponse } from '../../contracts/schemas/input.ts';
import type { ApprovalRequest, InputPause } from '../../contracts/schemas/request.ts';
import { FRESH, INITIATOR } from './servers.ts';

const ASKED = { ids: ['ann', 'zoe'] };

export const POLICY: ConfigInput['policy'] = {
  approvers: ASKED,
  servers: {
    bank: {
      tools: {
        pay: { action: 'ask', approvers: ASKED },
        transfer: { action: 'ask', approvers: { ...ASKED, need: 2, may: ['edit'] } },
        slow: 'allow',
      },
    },
    files: { default: 'ask' },
    lane: { default: 'allow' },
    desk: { default: 'allow' },
    held: { default: 'allow' },
    odd: { default: 'allow' },
    lent: { default: 'allow' },
    tasks: { default: 'allow' },
    away: { default: 'allow' },
  },
};

export async function approveBy(run: RunHandle, request: ApprovalRequest, id: string, over: object = {}) {
  return await run.decide({ kind: 'approve', ...answerTo(request, id), ...over });
}

/** The parts of any answer. A resent one has the same id. */
function answerTo({ callId, digest, runId, generation, about }: ApprovalRequest, id: string) {
  const round = about === undefined ? '' : `-${about.kind}-${'round' in about ? about.round : about.attempt}`;
  return { decisionId: `${callId}-${generation}${round}-${id}`, callId, digest, runId, approver: { id, groups: [] } };
}

/**
 * Answers one request.
 * @param ran how often its server has executed the call
 */
export async function answer(run: RunHandle, request: ApprovalRequest, ran: number): Promise<unknown> {
  const { about } = request;
  switch (about?.kind) {
    case undefined: {
      const [voter = 'ann'] = ['ann', 'zoe'].filter((id) => !request.votes?.some(({ approver }) => approver.id === id));
      return request.arguments['yes'] === false
        ? await run.decide({ kind: 'reject', reason: 'Not this one.', ...answerTo(request, voter) })
        : await approveBy(run, request, voter);
    }
    case 'outcome':
      return await run.resolveOutcome({
        ...answerTo(request, 'ann'),
        ...(ran > 0 ? { kind: 'succeeded', result: 'It is there.' } : { kind: 'retry' }),
      });
    case 'input':
      return await run.provideInput({
        kind: 'provide',
        ...answerTo(request, 'ann'),
        responses: Object.fromEntries(Object.keys(about.requests).map((key) => [key, formFor(about, key, run.runId)])),
      });
    case 'authorization':
      return await run.authorize({
        kind: 'grant',
        ...answerTo(request, INITIATOR.id),
        grant: { server: about.server, ref: FRESH },
      });
  }
}

/** Fills in a form: the run where a name is asked, else what the field allows. */
function formFor({ requests }: InputPause, key: string, runId: string): InputResponse {
  const asked = requests[key];
  if (asked?.kind !== 'form') return { action: 'decline' };
  const content = Object.entries(asked.fields).map(([name, field]) => {
    if (field.type === 'boolean') return [name, true] as const;
    return [name, name === 'card' ? 'visa' : runId] as const;
  });
  return { action: 'accept', content: Object.fromEntries(content) };
}
