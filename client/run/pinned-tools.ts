/** Reads the tools of a run's servers, as the run has them: its ledger names the stored lists by hash. */
import type { Client } from '@temporalio/client';
import { CountersignError } from '../../contracts/errors.ts';
import { parseAs } from '../../contracts/schemas/parse.ts';
import { ServerTools } from '../../contracts/schemas/tool.ts';
import { type LedgerSource, readEntries } from '../ledger/ledger.ts';

/** A run lists its tools before its first turn, so that its first entries name all of them. */
const MOST_ENTRIES = 200;

/**
 * Returns the list of this server's tools, each with its definition and hash; undefined if the run has listed none.
 * @throws CountersignError `ARTIFACT_MISSING` if this client has no access to the artifact store, `ARTIFACT_CORRUPT`
 */
export async function readPinnedTools(
  client: Client,
  source: LedgerSource,
  server: string,
): Promise<ServerTools | undefined> {
  const entries = await readEntries(client, source, { from: 0, most: MOST_ENTRIES });
  const listed = entries.flatMap(({ fact }) =>
    fact.kind === 'tools.discovered' && fact.server === server ? [fact.toolsHash] : [],
  );
  const sha256 = listed.at(-1);
  if (sha256 === undefined) return undefined;
  if (source.artifacts === undefined) {
    const message = 'Tool definitions stand in the artifact store. Give this client access to it.';
    throw new CountersignError('ARTIFACT_MISSING', message, { runId: source.workflowId });
  }
  // The ledger names the hash alone.
  const bytes = await source.artifacts.get({ sha256, bytes: 0, contentType: '' });
  const stored: unknown = JSON.parse(new TextDecoder().decode(bytes));
  return parseAs(ServerTools, stored, 'ARTIFACT_CORRUPT', `list of tools of ${server}`);
}
