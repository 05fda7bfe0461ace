/**
 * This `LedgerSink` sends one POST for each record over HTTP, signed as Standard Webhooks 1.0 says. A record is sent when
 * its run rolls or ends: too late to tell people of an open request.
 *
 * 1. A 2xx answer acknowledges, and 409 is the receiver's report of a conflict; Temporal retries after every other
 *    answer.
 * 2. One attempt is bounded in time, and no redirect is followed. Only the status of the answer is used, and nothing of
 *    it is quoted. The address is not quoted either: it may hold what only the receiver should know.
 */
import { createHmac } from 'node:crypto';
import { defined } from '../../contracts/defined.ts';
import type { LedgerWebhook } from '../../contracts/schemas/config.ts';
import type { LedgerRecord } from '../../contracts/schemas/ledger.ts';
import { canonicalJson, hashOf } from '../../domain/text/canonical.ts';
import { type Egress, egressRefusalIn, type GuardedFetch } from '../egress/fetch.ts';
import { networkCodeOf } from '../kit/network.ts';
import { retryAfterOf } from '../tokens/exchange.ts';
import { conflict, type LedgerSink, unavailable } from './port.ts';

/** The limit is small, since nothing of an answer's body is read. */
const MOST_BYTES = 65_536;

export function createLedgerWebhook({ url, secret, timeoutSeconds }: LedgerWebhook, egress: Egress): LedgerSink {
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
  const { fetch } = egress.outlet({ what: 'ledger.webhook.url', to: [url], maxBytes: MOST_BYTES });
  return {
    deliver: async (record) => {
      const body = canonicalJson(record);
      // The same whenever the same record is sent.
      const id = hashOf(record.head);
      const timestamp = String(Math.floor(Date.now() / 1_000));
      const signature = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64');
      const headers = {
        'content-type': 'application/json',
        'user-agent': 'countersign',
        'webhook-id': id,
        'webhook-timestamp': timestamp,
        'webhook-signature': `v1,${signature}`,
      };
      const signal = AbortSignal.timeout(timeoutSeconds * 1_000);
      const answer = await post(record, fetch, url, { headers, body, signal });
      if (answer.status >= 200 && answer.status < 300) return;
      if (answer.status === 409)
        throw conflict(record, record.head.from, 'or one after it was refused by ledger.webhook');
      const { status, retryAfterMs } = answer;
      throw unavailable(record, `ledger.webhook answered ${status}`, defined({ retryAfterMs }));
    },
  };
}

async function post(
  record: LedgerRecord,
  fetch: GuardedFetch,
  url: string,
  request: { readonly headers: Readonly<Record<string, string>>; readonly body: string; readonly signal: AbortSignal },
): Promise<{ readonly status: number; readonly retryAfterMs: number | undefined }> {
  try {
    const answer = await fetch(url, { method: 'POST', ...request });
    const retryAfterMs = retryAfterOf(answer);
    await answer.body?.cancel();
    return { status: answer.status, retryAfterMs };
  } catch (error) {
    const forbidden = egressRefusalIn(error)?.facts['reason'];
    const reason = request.signal.aborted
      ? 'timed out'
      : forbidden === undefined
        ? `could not be reached (${networkCodeOf(error) ?? 'error'})`
        : `was not contacted (EGRESS_FORBIDDEN): its host ${String(forbidden)}`;
    // The cause is left out: it names the address.
    throw unavailable(record, `ledger.webhook ${reason}`);
  }
}
