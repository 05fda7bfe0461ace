/**
 * Whether what the run says that people have answered to a held question may be given to the server, and how a dispatch asks.
 *
 * 1. It is believed no more than what a dispatch is given of earlier answers: policy as it is now, the digest of what was shown, and
 *    in trust mode `signed` the signature (`activities/gate/statement-checks.ts`, `activities/trust/dispatch-proof.ts`).
 * 2. It answers what this worker has asked, to the letter, and was given after that. Whoever forges a question in the run gets no
 *    answer to a server (INV-G1).
 * 3. The call has been sent: what no longer counts ends nothing, and the server hears that nobody answers.
 */
import { Context } from '@temporalio/activity';
import { SIGNING } from '../../../contracts/crypto.ts';
import { CountersignError } from '../../../contracts/errors.ts';
import type { Config } from '../../../contracts/schemas/config.ts';
import type { InputResponse } from '../../../contracts/schemas/input.ts';
import type { HeldQuestions } from '../../../contracts/wire/legacy-2025.ts';
import type { DispatchInput } from '../../../contracts/wire/tools.ts';
import { answersTo } from '../../../domain/request/input.ts';
import { answersOf } from '../../../domain/request/provision.ts';
import { canonicalJson } from '../../../domain/text/canonical.ts';
import type { ToolNow } from '../../catalog/layer.ts';
import type { ReadCatalog } from '../../catalog/reader.ts';
import { isRead } from '../../mcp/linked-resource.ts';
import { QUESTION } from '../../mcp/server-questions.ts';
import type { Conditions } from '../../policy/condition-clock.ts';
import { verdictOn } from '../../policy/judge.ts';
import type { CheckSignatures } from '../../trust/dispatch-proof.ts';
import { checkCatalog } from '../dispatch-check.ts';
import { answerersNow, checkProvided } from '../statement-checks.ts';
import type { HeldRun } from './held-run.ts';
import { createHeldAsking, type HeldAskingParts, type HeldPeople } from './open-question.ts';
import type { ProvisionProof } from '../../../contracts/wire/proofs.ts';
import type { Scheduler } from '../../kit/scheduler.ts';
import type { Refused } from '../../kit/refused.ts';

export interface HeldAnswerParts {
  readonly config: Config;
  readonly conditions: Conditions;
  readonly readCatalog: ReadCatalog;
  readonly checkSignatures?: CheckSignatures;
  /** Without it nobody is asked. */
  readonly heldRun?: HeldRun;
}

/** The call as it is sent. */
export interface HeldCall {
  readonly scheduler: Scheduler;
  readonly now: ToolNow;
}

/** How the server may ask in this call; undefined where it may not. */
export function peopleOf(input: DispatchInput, parts: HeldAnswerParts, call: HeldCall): HeldPeople | undefined {
  const { hold, callId, attempt, server } = input;
  const { heldRun: run } = parts;
  const { workflowId, runId } = call.scheduler;
  const seconds = Math.min(hold?.seconds ?? 0, holdSeconds(parts.config, server.name));
  const { definition } = call.now.tool;
  if (run === undefined || workflowId === undefined || runId === undefined || seconds <= 0 || isRead({ definition }))
    return undefined;
  // Questions come outside the activity, whose context knows its log.
  const { log } = Context.current();
  const warn: HeldAskingParts['warn'] = (message, meta) => {
    log.warn(message, { ...meta });
  };
  return createHeldAsking({
    run,
    scheduler: { workflowId, runId },
    call: { callId, attempt },
    seconds,
    warn,
    proven: async ({ provided }, asked, askedAt) => {
      const why = await objection(input, provided, { asked, askedAt }, parts, call).catch(lasting);
      if (why === undefined) return responseIn(provided, asked);
      warn('What was answered to a server does not count, and is not given to it.', { callId, code: why.code });
      return { code: why.code };
    },
  });
}

/** Of the server, by the operator's word as it is now. */
export function holdSeconds({ servers }: Pick<Config, 'servers'>, name: string): number {
  return (Object.hasOwn(servers, name) ? servers[name]?.elicitation?.holdSeconds : undefined) ?? 0;
}

interface Asked {
  readonly asked: HeldQuestions;
  /** Epoch ms, by this worker's clock. */
  readonly askedAt: number;
}

/** Why it may not be given to the server. @throws CountersignError where something that proves it cannot be read */
async function objection(
  input: DispatchInput,
  proof: ProvisionProof,
  question: Asked,
  { config, conditions, readCatalog, checkSignatures }: HeldAnswerParts,
  { scheduler, now }: HeldCall,
): Promise<Refused | undefined> {
  const mistaken = mismatch(proof, question);
  if (mistaken !== undefined) return mistaken;
  const { run, runPolicy, callId, earlier, server } = input;
  // People may have taken an hour: what was known of it as the call left is not how things are.
  const catalog = await readCatalog({ tenant: run.initiator.tenant, server: server.name });
  const disconnected = checkCatalog(server, catalog);
  if (disconnected !== undefined) return disconnected;
  const judged = { run, runPolicy, now, catalog, callId, arguments: input.arguments, earlier };
  const verdict = await verdictOn(config, conditions, judged);
  // Whoever denies the tool by now lets nothing more be said to its server.
  if (verdict.kind === 'deny') return { kind: 'refused', code: verdict.code, message: verdict.message };
  const { round, requests } = question.asked;
  const hashes = Object.entries(requests).map(([key, { hash }]) => [key, { hash }] as const);
  const leg = { round, requests: Object.fromEntries(hashes), used: [] };
  const answered: DispatchInput = { ...input, input: { provided: [proof], leg } };
  const leaving = { ...answerersNow(input, config, verdict), definitionHash: now.tool.hash, at: Date.now() };
  // What was asked is compared above.
  return checkProvided(answered, leaving, () => true) ?? (await checkSignatures?.(answered, scheduler));
}

/** What cannot be read may be in a moment; anything else that goes wrong is no proof. @throws as `objection` */
function lasting(error: unknown): Pick<Refused, 'code'> {
  if (error instanceof CountersignError && error.traits.retryable) throw error;
  return { code: error instanceof CountersignError ? error.code : 'DISPATCH_FORBIDDEN' };
}

/** Is it an answer to this question, asked by this worker? */
function mismatch({ about, decidedAt }: ProvisionProof, { asked, askedAt }: Asked): Refused | undefined {
  const isAnswer =
    about.held === true &&
    about.round === asked.round &&
    canonicalJson(about.requests) === canonicalJson(asked.requests) &&
    // Clocks of a worker and of Temporal differ; an answer to the same question of an earlier dispatch is older than that.
    Date.parse(decidedAt) >= askedAt - SIGNING.recordedWithin * 1_000;
  return isAnswer
    ? undefined
    : { kind: 'refused', code: 'DISPATCH_FORBIDDEN', message: 'The answer is to another question.' };
}

function responseIn(proof: ProvisionProof, { requests }: HeldQuestions): InputResponse | undefined {
  return answersTo(requests, answersOf([proof])).responses[QUESTION];
}
