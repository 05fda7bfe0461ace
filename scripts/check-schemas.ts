/**
 * Keeps docs/schema/ equal to the zod schemas and the gateway's routes, so that nobody writes a client against shapes
 * that are no longer true.
 *
 * `npx tsx scripts/check-schemas.ts` compares and exits 1 naming what is stale; with `--write` it writes the files.
 */
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { z } from 'zod';
import * as schemas from '../contracts/schemas/index.ts';
import { RunEvent } from '../contracts/schemas/http/opened-request.ts';
import { GatewayConfig } from '../contracts/schemas/gateway.ts';
import { LedgerPage } from '../contracts/schemas/run-state.ts';
import { openApiDocument } from '../gateway/gateway.ts';

interface Published {
  readonly schema: z.ZodType;
  readonly io: 'input' | 'output';
  readonly title: string;
}

/** The values that a caller may send, with defaults left out. */
const input = (schema: z.ZodType, title: string): Published => ({ schema, io: 'input', title });

/** The values that the service answers. */
const output = (schema: z.ZodType, title: string): Published => ({ schema, io: 'output', title });

const PUBLISHED: Readonly<Record<string, Published>> = {
  'run-spec': input(schemas.RunSpec, 'Run spec: what starts a run'),
  'call-spec': input(schemas.CallSpec, 'Call spec: what starts a single call'),
  'call-answer': output(schemas.CallAnswer, 'Call answer: what became of a single call'),
  decision: input(schemas.Decision, 'Decision: what a person says to a request'),
  resolution: input(schemas.Resolution, 'Resolution: what became of a call whose answer was lost'),
  provision: input(schemas.Provision, 'Provision: answers to the questions of a server'),
  authorization: input(schemas.Authorization, 'Authorization: what a server wanted before a call'),
  say: input(schemas.Say, 'Say: a further user message'),
  forget: input(schemas.Forget, 'Forget: takes a standing decision back'),
  stop: input(schemas.Stop, 'Stop: ends a run without failing it'),
  'policy-cases': input(schemas.PolicyCases, 'Policy cases: calls, and what policy must say of them'),
  policy: input(schemas.Policy, 'Policy: what may run, what is asked, what is refused'),
  'webhook-message': output(schemas.WebhookMessage, 'Message to people, as a webhook gets it'),
  config: input(schemas.Config, 'countersign.yaml: configuration of a worker'),
  'catalog-connect': input(schemas.CatalogConnect, 'Connect: a server for the catalog of a tenant'),
  'catalog-refresh': input(schemas.CatalogRefresh, 'Refresh: lists the tools of a server anew'),
  'set-tool-policies': input(schemas.SetToolPolicies, 'Set tool policies: what each tool may'),
  'catalog-disconnect': input(schemas.CatalogDisconnect, 'Disconnect: no run may use the server'),
  'catalog-decision': input(schemas.CatalogDecision, 'Decision on a change that waits in a catalog'),
  'approval-request': output(schemas.ApprovalRequest, 'Approval request: a call that waits'),
  'decision-ack': output(schemas.DecisionAck, 'Answer to a decision'),
  'pause-ack': output(schemas.PauseAck, 'Answer to a resolution, a provision or an authorization'),
  'catalog-snapshot': output(schemas.CatalogSnapshot, 'Catalog: answer of the snapshot query'),
  'catalog-file': input(schemas.CatalogFile, 'Catalog file: what export writes and import reads'),
  'catalog-ack': output(schemas.CatalogAck, 'Answer to a message to a catalog'),
  outcome: output(schemas.Outcome, 'Outcome: how a call ended'),
  verdict: output(schemas.Verdict, 'Verdict: what policy says of a call'),
  'tool-definition': output(schemas.ToolDefinition, 'Tool definition: what its hash covers'),
  'issued-token': output(schemas.IssuedClaims, 'Claims of a token that a worker issues for one call'),
  'ledger-entry': output(schemas.LedgerEntry, 'Ledger entry'),
  'run-event': output(RunEvent, 'Event of a run'),
  'ledger-page': output(LedgerPage, 'Ledger page: answer of the query ledger'),
  'ledger-record': output(schemas.LedgerRecord, 'Ledger record: body of the webhook of the ledger port'),
  'ledger-line': output(schemas.LedgerLine, 'Ledger line: a line of a JSONL record or export'),
  segment: output(schemas.Segment, 'Segment: a stored stretch of transcript and ledger'),
  'run-state': output(schemas.RunState, 'Run state: answer of the state query'),
  'run-result': output(schemas.RunResult, 'Run result'),
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
