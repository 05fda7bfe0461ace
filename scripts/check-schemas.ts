/**
 * Keeps docs/schema/ equal to the zod schemas and the gateway's routes, so that nobody writes a client against shapes that are no longer true.
 *
 * `npx tsx scripts/check-schemas.ts` compares and exits 1 naming what is stale; with `--write` it writes the files.
 */
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { z } from 'zod';
import {
  ApprovalRequest,
  Authorization,
  CallAnswer,
  CallSpec,
  CatalogAck,
  CatalogConnect,
  CatalogDecision,
  CatalogDisconnect,
  CatalogFile,
  CatalogRefresh,
  CatalogSnapshot,
  Config,
  Decision,
  DecisionAck,
  Forget,
  IssuedClaims,
  LedgerEntry,
  LedgerLine,
  LedgerRecord,
  Outcome,
  PauseAck,
  Policy,
  PolicyCases,
  Provision,
  Resolution,
  RunResult,
  RunSpec,
  RunState,
  Say,
  Segment,
  SetToolPolicies,
  Stop,
  ToolDefinition,
  Verdict,
  WebhookMessage,
} from '../contracts/schemas/index.ts';
import { RunEvent } from '../contracts/schemas/http/opened-request.ts';
import { GatewayConfig } from '../contracts/schemas/gateway.ts';
import { LedgerPage } from '../contracts/schemas/run-state.ts';
import { openApiDocument } from '../gateway/gateway.ts';

interface Published {
  readonly schema: z.ZodType;
  /**
   * `input`: the values that a caller may send, with defaults left out. `output`: the values that the service answers.
   */
  readonly io: 'input' | 'output';
  readonly title: string;
}

const PUBLISHED: Readonly<Record<string, Published>> = {
  'run-spec': { schema: RunSpec, io: 'input', title: 'Run spec: what starts a run' },
  'call-spec': { schema: CallSpec, io: 'input', title: 'Call spec: what starts a single call' },
  'call-answer': { schema: CallAnswer, io: 'output', title: 'Call answer: what became of a single call' },
  decision: { schema: Decision, io: 'input', title: 'Decision: what a person says to a request' },
  resolution: { schema: Resolution, io: 'input', title: 'Resolution: what became of a call whose answer was lost' },
  provision: { schema: Provision, io: 'input', title: 'Provision: answers to the questions of a server' },
  authorization: { schema: Authorization, io: 'input', title: 'Authorization: what a server wanted before a call' },
  say: { schema: Say, io: 'input', title: 'Say: a further user message' },
  forget: { schema: Forget, io: 'input', title: 'Forget: takes a standing decision back' },
  stop: { schema: Stop, io: 'input', title: 'Stop: ends a run without failing it' },
  'policy-cases': { schema: PolicyCases, io: 'input', title: 'Policy cases: calls, and what policy must say of them' },
  policy: { schema: Policy, io: 'input', title: 'Policy: what may run, what is asked, what is refused' },
  'webhook-message': { schema: WebhookMessage, io: 'output', title: 'Message to people, as a webhook gets it' },
  config: { schema: Config, io: 'input', title: 'countersign.yaml: configuration of a worker' },
  'catalog-connect': { schema: CatalogConnect, io: 'input', title: 'Connect: a server for the catalog of a tenant' },
  'catalog-refresh': { schema: CatalogRefresh, io: 'input', title: 'Refresh: lists the tools of a server anew' },
  'set-tool-policies': { schema: SetToolPolicies, io: 'input', title: 'Set tool policies: what each tool may' },
  'catalog-disconnect': { schema: CatalogDisconnect, io: 'input', title: 'Disconnect: no run may use the server' },
  'catalog-decision': { schema: CatalogDecision, io: 'input', title: 'Decision on a change that waits in a catalog' },
  'approval-request': { schema: ApprovalRequest, io: 'output', title: 'Approval request: a call that waits' },
  'decision-ack': { schema: DecisionAck, io: 'output', title: 'Answer to a decision' },
  'pause-ack': { schema: PauseAck, io: 'output', title: 'Answer to a resolution, a provision or an authorization' },
  'catalog-snapshot': { schema: CatalogSnapshot, io: 'output', title: 'Catalog: answer of the snapshot query' },
  'catalog-file': { schema: CatalogFile, io: 'input', title: 'Catalog file: what export writes and import reads' },
  'catalog-ack': { schema: CatalogAck, io: 'output', title: 'Answer to a message to a catalog' },
  outcome: { schema: Outcome, io: 'output', title: 'Outcome: how a call ended' },
  verdict: { schema: Verdict, io: 'output', title: 'Verdict: what policy says of a call' },
  'tool-definition': { schema: ToolDefinition, io: 'output', title: 'Tool definition: what its hash covers' },
  'issued-token': { schema: IssuedClaims, io: 'output', title: 'Claims of a token that a worker issues for one call' },
  'ledger-entry': { schema: LedgerEntry, io: 'output', title: 'Ledger entry' },
  'run-event': { schema: RunEvent, io: 'output', title: 'Event of a run' },
  'ledger-page': { schema: LedgerPage, io: 'output', title: 'Ledger page: answer of the query ledger' },
  'ledger-record': {
    schema: LedgerRecord,
    io: 'output',
    title: 'Ledger record: body of the webhook of the ledger port',
  },
  'ledger-line': { schema: LedgerLine, io: 'output', title: 'Ledger line: a line of a JSONL record or export' },
  segment: { schema: Segment, io: 'output', title: 'Segment: a stored stretch of transcript and ledger' },
  'run-state': { schema: RunState, io: 'output', title: 'Run state: answer of the state query' },
  'run-result': { schema: RunResult, io: 'output', title: 'Run result' },
};

const FOLDER = new URL('../docs/schema/', import.meta.url);
const ENDING = '.schema.json';
/** The gateway's API, as it serves it. */
const OPENAPI = 'openapi.json';

function written({ schema, io, title }: Published): string {
  const { $schema, ...body } = z.toJSONSchema(schema, { io });
  return `${JSON.stringify({ $schema, title, ...body }, null, 2)}\n`;
}

function stored(file: string): string | undefined {
  try {
    return readFileSync(new URL(file, FOLDER), 'utf8');
  } catch {
    // An unreadable file is as stale as a missing one.
    return undefined;
  }
}

async function main(writes: boolean): Promise<number> {
  mkdirSync(FOLDER, { recursive: true });
  const wanted = new Map(
    Object.entries(PUBLISHED).map(([name, published]) => [`${name}${ENDING}`, written(published)]),
  );
  const api = await openApiDocument(GatewayConfig.parse({}));
  wanted.set(OPENAPI, `${JSON.stringify(api, null, 2)}\n`);
  const stale = [...wanted].filter(([file, text]) => stored(file) !== text).map(([file]) => file);
  const left = readdirSync(FOLDER).filter((file) => file.endsWith(ENDING) && !wanted.has(file));
  if (writes) {
    for (const file of stale) writeFileSync(new URL(file, FOLDER), wanted.get(file) ?? '');
    for (const file of left) rmSync(new URL(file, FOLDER));
    console.log(`docs/schema: ${stale.length} written, ${left.length} removed, ${wanted.size} in all`);
    return 0;
  }
  for (const file of stale) console.error(`docs/schema/${file} is not what the contracts say`);
  for (const file of left) console.error(`docs/schema/${file} belongs to no contract`);
  if (stale.length + left.length === 0) return 0;
  console.error('Run `npx tsx scripts/check-schemas.ts --write`, and read the difference: it is a change of the wire.');
  return 1;
}

const [flag, ...more] = process.argv.slice(2);
if ((flag !== undefined && flag !== '--write') || more.length > 0) {
  console.error('usage: npx tsx scripts/check-schemas.ts [--write]');
  process.exitCode = 2;
} else process.exitCode = await main(flag === '--write');
