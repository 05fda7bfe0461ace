/**
 * Decides whether the run's answer to an open question may be given to the server, and prepares the asking for a
 * dispatch.
 *
 * 1. The answer is checked like the answers in a dispatch's input: by policy as it is now and by the digest of what was
 *    shown. In trust mode `signed` the signature is checked too (`activities/gate/statement.ts`,
 *    `activities/trust/dispatch-proof.ts`).
 * 2. The answer is to exactly what this worker has asked, and was given after that. A forged question in the run yields
 *    no answer to a server (INV-G1).
 * 3. The call has been sent, so an answer that no longer counts ends nothing; the server hears that nobody answers.
 */
import { Context } from '@temporalio/activity';
import { SIGNING } from '../../../contracts/crypto.ts';
import { CountersignError } from '../../../contracts/errors.ts';
import type { HeldQuestions } from '../../../contracts/wire/legacy-2025.ts';
import type { DispatchInput } from '../../../contracts/wire/tools.ts';
import { answersTo } from '../../../domain/request/input.ts';
import { answersOf } from '../../../domain/request/provision.ts';
import { canonicalJson } from '../../../domain/text/canonical.ts';
import type { ToolNow } from '../../catalog/reader.ts';
import { isRead } from '../../mcp/classify-result.ts';
import { QUESTION } from '../../mcp/legacy-2025/legacy-calls.ts';
import { verdictOn } from '../../policy/judge.ts';
import { checkCatalog } from '../dispatch-check.ts';
import type { CallToolParts } from '../send.ts';
import { answerersNow, checkProvided } from '../statement.ts';
import { HeldAsking, type HeldAskingParts, type HeldPeople } from './open-question.ts';
import type { ProvisionProof } from '../../../contracts/wire/proofs.ts';
import { forbidden, type Refused, refused, type Scheduler } from '../../kit/activity.ts';
import { ownValue } from '../../kit/json.ts';

export type HeldAnswerParts = Pick<
  CallToolParts,
  'config' | 'conditions' | 'readCatalog' | 'checkSignatures' | 'heldRun'
>;

export interface HeldCall {
  readonly scheduler: Scheduler;
  readonly now: ToolNow;
}

/** Lets the server ask people in this call; undefined if it may not. */
export function peopleOf(input: DispatchInput, parts: HeldAnswerParts, call: HeldCall): HeldPeople | undefined {
  const { hold, callId, attempt, server } = input;
  const { heldRun: run } = parts;
  const { workflowId, runId } = call.scheduler;
  const configured = ownValue(parts.config.servers, server.name)?.elicitation?.holdSeconds ?? 0;
  const seconds = Math.min(hold?.seconds ?? 0, configured);
  const { definition } = call.now.tool;
  if (seconds <= 0 || isRead({ definition })) return undefined;
  // Questions arrive outside the activity; its context, taken here, has its log.
  const { log } = Context.current();
  const warn: HeldAskingParts['warn'] = (message, meta) => {
    log.warn(message, { ...meta });
  };
  return new HeldAsking({
    run,
    scheduler: { workflowId, runId },
    call: { callId, attempt },
    seconds,
    warn,
    proven: async ({ provided }, asked, askedAt) => {
      const why = await objection(input, provided, { asked, askedAt }, parts, call).catch(lasting);
      if (why === undefined) return answersTo(asked.requests, answersOf([provided])).responses[QUESTION];
      warn('What was answered to a server does not count, and is not given to it.', { callId, code: why.code });
      return { code: why.code };
    },
  });
}

interface Asked {
  readonly asked: HeldQuestions;
  /** Epoch ms, by this worker's clock. */
  readonly askedAt: number;
}

/** Says why the answer may not be given. @throws CountersignError if a part of the proof cannot be read */
async function objection(
  input: DispatchInput,
  proof: ProvisionProof,
  question: Asked,
  { config, conditions, readCatalog, checkSignatures }: HeldAnswerParts,
  { scheduler, now }: HeldCall,
): Promise<Refused | undefined> {
  const mistaken = mismatch(proof, question);
  if (mistaken !== undefined) return mistaken;
  const { run, server } = input;
  // People may have taken an hour, so the state that was known as the call left is read again.
  const catalog = await readCatalog({ tenant: run.initiator.tenant, server: server.name });
  const disconnected = checkCatalog(server, catalog);
  if (disconnected !== undefined) return disconnected;
  const verdict = await verdictOn(config, conditions, { ...input, now, catalog });
  // A tool that is denied by now stops every further word to its server.
  if (verdict.kind === 'deny') return refused(verdict.code, verdict.message);
  const { round, requests } = question.asked;
  const hashes = Object.entries(requests).map(([key, { hash }]) => [key, { hash }] as const);
  const leg = { round, requests: Object.fromEntries(hashes), used: [] };
  const answered: DispatchInput = { ...input, input: { provided: [proof], leg } };
  const leaving = { ...answerersNow(input, config, verdict), definitionHash: now.tool.hash, at: Date.now() };
  // The question was compared above.
  return checkProvided(answered, leaving, () => true) ?? (await checkSignatures?.(answered, scheduler));
}

/** Rethrows a failure that may pass; any other is no proof. */
function lasting(error: unknown): Pick<Refused, 'code'> {
  if (error instanceof CountersignError && error.traits.retryable) throw error;
  return { code: error instanceof CountersignError ? error.code : 'DISPATCH_FORBIDDEN' };
}

/** Checks that the answer is to this question, asked by this worker. */
function mismatch({ about, decidedAt }: ProvisionProof, { asked, askedAt }: Asked): Refused | undefined {
  const isAnswer =
    about.held === true &&
    about.round === asked.round &&
    canonicalJson(about.requests) === canonicalJson(asked.requests) &&
    // The clocks of a worker and of Temporal differ. An answer to the same question of an earlier dispatch is older
    // than the allowance.
    Date.parse(decidedAt) >= askedAt - SIGNING.recordedWithin * 1_000;
  return isAnswer ? undefined : forbidden('The answer is to another question.');
}
