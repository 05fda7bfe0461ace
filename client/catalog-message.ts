/** Messages to a catalog, checked for shape and size before they leave. */
import { randomUUID } from 'node:crypto';
import type { z } from 'zod';
import { CountersignError } from '../contracts/errors.ts';
import { parseAs } from '../contracts/schemas/parse.ts';
import { byteLength } from '../domain/canonical.ts';

/** A message without its id gets a random one. */
export type Message<T extends { readonly requestId: string }> = Omit<T, 'requestId'> & { readonly requestId?: string };

/** Half of what one payload may hold (Temporal server `limit.blobSize.error`). */
const MESSAGE_BYTES = 1_048_576;

/** @throws CountersignError `CATALOG_INVALID`, `LIMIT_REACHED` */
export function catalogMessage<T>(schema: z.ZodType<T>, input: object, what: string): T {
  const message = parseAs(schema, { requestId: randomUUID(), ...input }, 'CATALOG_INVALID', what);
  const bytes = byteLength(JSON.stringify(message));
  if (bytes <= MESSAGE_BYTES) return message;
  throw new CountersignError(
    'LIMIT_REACHED',
    `The ${what} has ${bytes} bytes; ${MESSAGE_BYTES} are allowed. Send fewer tools at once; nothing was changed.`,
    { limit: 'message' },
  );
}
