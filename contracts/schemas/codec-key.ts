/** A symmetric key: 32 bytes, base64. Where there are several the first encrypts or proves; all decrypt or verify. */
import { z } from 'zod';
import { Name } from './json.ts';

export const CodecKey = z.strictObject({
  id: Name,
  key: z.string().regex(/^[A-Za-z0-9+/]{43}=$/, 'must be 32 bytes in base64'),
});
export type CodecKey = z.infer<typeof CodecKey>;
