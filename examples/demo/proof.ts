/**
 * Did it happen as promised? The demo succeeds only if the file was written exactly once, after the decision.
 */
import { readdir, readFile, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { type ApprovalRequest, assertIntact, type DecisionAck, type LedgerEntry } from '../../client/index.ts';

export interface Check {
  readonly holds: boolean;
  readonly text: string;
}

/** What was seen at the moment of a decision. */
export interface Countersigned {
  readonly request: ApprovalRequest;
  readonly ack: DecisionAck;
  readonly filesBefore: ReadonlyMap<string, string>;
}

export async function filesIn(folder: string): Promise<Map<string, string>> {
  const names = (await readdir(folder)).toSorted();
  return new Map(
    await Promise.all(names.map(async (name) => [name, await readFile(join(folder, name), 'utf8')] as const)),
  );
}

export async function prove(
  folder: string,
  runId: string,
  decided: readonly Countersigned[],
  ledger: readonly LedgerEntry[],
): Promise<Check[]> {
  const writes = decided.filter(({ request, ack }) => request.tool === 'write_file' && ack.status === 'approved');
  const write = writes[0];
  if (write === undefined) return await refused(folder, decided);
  if (writes.length > 1)
    return [{ holds: false, text: `${writes.length} writes were countersigned; the demo wants one` }];
  return [...(await fileChecks(folder, write)), ...ledgerChecks(runId, write, ledger)];
}

/** Nothing may have happened, and that is not what the demo is to show. */
async function refused(folder: string, decided: readonly Countersigned[]): Promise<Check[]> {
  const before = decided[0]?.filesBefore;
  const after = await filesIn(folder);
  const isUntouched =
    before === undefined ||
    (before.size === after.size && [...before].every(([name, text]) => after.get(name) === text));
  return [
    { holds: isUntouched, text: 'no file was touched' },
    { holds: false, text: 'a write was countersigned (the demo succeeds only with one)' },
  ];
}

async function fileChecks(folder: string, { request, ack, filesBefore }: Countersigned): Promise<Check[]> {
  const { path, content } = request.arguments;
  const name = typeof path === 'string' ? resolve(folder, path).slice(folder.length + 1) : '';
  const after = await filesIn(folder);
  const others = [...after].filter(([other]) => other !== name);
  const written = await stat(join(folder, name)).catch(() => undefined);
  const delayMs = Math.round((written?.mtimeMs ?? 0) - Date.parse(ack.decidedAt));
  return [
    { holds: !filesBefore.has(name), text: `${name} was not there before the decision` },
    {
      holds: written !== undefined && delayMs >= 0,
      text: `it was written after the decision${written === undefined ? '' : ` (${delayMs} ms)`}`,
    },
    { holds: after.get(name) === content, text: 'it holds what was countersigned' },
    {
      holds: others.every(([other, text]) => filesBefore.get(other) === text) && others.length === filesBefore.size,
      text: 'no other file was touched',
    },
  ];
}

function ledgerChecks(runId: string, { request, ack }: Countersigned, ledger: readonly LedgerEntry[]): Check[] {
  const ofCall = ledger.filter(({ fact }) => 'callId' in fact && fact.callId === request.callId);
  const accepted = ofCall.filter(
    ({ fact }) =>
      fact.kind === 'decision.accepted' && fact.decisionId === ack.decisionId && fact.digest === request.digest,
  );
  const sent = ofCall.filter(({ fact }) => fact.kind === 'dispatched');
  const outcome = ofCall.find(({ fact }) => fact.kind === 'outcome')?.fact;
  const inOrder = accepted.length === 1 && sent.length === 1 && (sent[0]?.seq ?? 0) > (accepted[0]?.seq ?? 0);
  return [
    {
      holds: inOrder,
      text: `the call was sent once, after the decision (ledger entries ${accepted[0]?.seq} and ${sent.map(({ seq }) => seq).join(', ')})`,
    },
    { holds: outcome?.kind === 'outcome' && outcome.outcome === 'succeeded', text: 'and it succeeded' },
    chainCheck(runId, ledger),
  ];
}

function chainCheck(runId: string, ledger: readonly LedgerEntry[]): Check {
  try {
    return {
      holds: true,
      text: `the ledger is intact: ${assertIntact(ledger, runId).length} entries, each chained to the one before`,
    };
  } catch (error) {
    return { holds: false, text: error instanceof Error ? error.message : String(error) };
  }
}
