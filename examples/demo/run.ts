/** The run of the demo: what happens is told as it happens, what waits is decided, by update, through the client library. */
import { readFile } from 'node:fs/promises';
import { parse } from 'yaml';
import {
  type ApprovalRequest,
  type Countersign,
  type LedgerEntry,
  type RunHandle,
  type RunSpecInput,
  visible,
} from '../../client/index.ts';
import { decisionOn } from './ask.ts';
import { type Countersigned, filesIn } from './proof.ts';
import { countersign, type Service } from './service.ts';
import { facts, heading, paint, say } from './voice.ts';

const SPEC = new URL('../write-a-summary.yaml', import.meta.url);
const APPROVER = 'ann';

export interface Demo {
  readonly service: Service;
  readonly library: Countersign;
  /** Asks on the terminal; decides by itself otherwise. */
  readonly asks: boolean;
  readonly signal: AbortSignal;
}

export interface Told {
  readonly run: RunHandle;
  readonly decided: readonly Countersigned[];
}

export async function tellRun(demo: Demo): Promise<Told> {
  // Sound: `startRun` parses it.
  const spec = parse(await readFile(SPEC, 'utf8')) as RunSpecInput;
  const run = await demo.library.startRun({
    runId: `summary-${new Date().toISOString().slice(0, 19).replaceAll(/\D/g, '')}`,
    spec,
  });
  heading(`1. A run starts: ${run.runId}`);
  const decided: Countersigned[] = [];
  for await (const entry of run.watch({ signal: demo.signal })) {
    tell(entry);
    if (entry.fact.kind !== 'request.opened') continue;
    const { callId } = entry.fact;
    const request = (await run.requests()).find((waiting) => waiting.callId === callId && waiting.status === 'open');
    if (request !== undefined) decided.push(await decide(demo, run, request));
  }
  demo.signal.throwIfAborted();
  return { run, decided };
}

async function decide(
  { service, asks, signal }: Demo,
  run: RunHandle,
  request: ApprovalRequest,
): Promise<Countersigned> {
  heading('2. A call waits for a countersignature');
  await countersign(service, 'requests', run.runId, '--full');
  say(`\nIn Temporal UI: ${paint('cyan', await uiAddress(service, run))}\n`);
  const filesBefore = await filesIn(service.files.folder);
  const decision = await decisionOn(request, APPROVER, asks, signal);
  const ack = await run.decide(decision);
  heading(`3. Decided by update: ${ack.status}`);
  facts({ call: ack.callId, by: ack.decidedBy, at: ack.decidedAt, digest: request.digest });
  say();
  return { request, ack, filesBefore };
}

export async function uiAddress({ uiUrl, namespace }: Service, run: RunHandle): Promise<string> {
  const { runId } = await run.state();
  return `${uiUrl}/namespaces/${namespace}/workflows/${encodeURIComponent(run.runId)}/${runId}/history`;
}

/** The verdicts and outcomes; the rest stands in the ledger. */
function tell({ fact }: LedgerEntry): void {
  if (fact.kind === 'verdict') {
    const what = {
      allow: paint('green', 'allowed at once'),
      ask: paint('yellow', 'asked'),
      deny: paint('red', 'denied'),
    }[fact.verdict];
    say(
      `  ${fact.callId}  ${visible(`${fact.server ?? ''}/${fact.tool}`).padEnd(22)}  ${what}  ${paint('dim', fact.rules.map(visible).join(', '))}`,
    );
  }
  if (fact.kind === 'outcome' && fact.outcome !== 'succeeded')
    say(`  ${fact.callId}  ${paint('red', fact.outcome)}${fact.code === undefined ? '' : ` (${visible(fact.code)})`}`);
  if (fact.kind === 'outcome' && fact.outcome === 'succeeded') say(`  ${fact.callId}  ${paint('green', 'succeeded')}`);
}
