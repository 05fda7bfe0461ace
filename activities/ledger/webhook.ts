/**
 * This `LedgerSink` sends one POST for each record over HTTP, signed as Standard Webhooks 1.0 says. A record is sent
 * when its run rolls or ends: too late to tell people of an open request.
 *
 * 1. A 2xx answer acknowledges, and 409 is the receiver's report of a conflict; Temporal retries after every other
 *    answer.
 * 2. `activities/egress/webhook.ts` bounds an attempt. Nothing of an answer is quoted, nor the address.
 */
import { defined } from '../../contracts/defined.ts';
import type { LedgerWebhook } from '../../contracts/schemas/config.ts';
import { canonicalJson, hashOf } from '../../domain/text/canonical.ts';
import type { Egress } from '../egress/fetch.ts';
import { createSignedPost } from '../egress/webhook.ts';
import { conflict, type LedgerSink, unavailable } from './port.ts';

export function createLedgerWebhook(receiver: LedgerWebhook, egress: Egress): LedgerSink {
  const post = createSignedPost({ ...receiver, what: 'ledger.webhook.url' }, egress);
  return {
    deliver: async (record) => {
      // The id is the same whenever the same record is sent.
      const answer = await post(hashOf(record.head), canonicalJson(record));
      if (answer.kind === 'unreached') throw unavailable(record, `ledger.webhook ${answer.reason}`);
      const { status, retryAfterMs } = answer;
      if (status >= 200 && status < 300) return;
      if (status === 409) throw conflict(record, record.head.from, 'or one after it was refused by ledger.webhook');
      throw unavailable(record, `ledger.webhook answered ${status}`, defined({ retryAfterMs }));
    },
  };
}
