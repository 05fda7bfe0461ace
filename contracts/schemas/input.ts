/**
 * A server asks for input in the middle of a call, and people answer (MCP 2026-07-28, multi round-trip requests and
 * client/elicitation). Texts and names are the server's: data, not instructions; escape before showing.
 */
import { z } from 'zod';
import { Sha256Hex } from './json.ts';

const label = { title: z.string().optional(), description: z.string().optional() };
const Option = z.strictObject({ value: z.string(), title: z.string().optional() });
const count = z.int().nonnegative().optional();

/** A field of a form, of one of the flat kinds that MCP allows. */
export const FormField = z.discriminatedUnion('type', [
  z.strictObject({
    type: z.literal('text'),
    ...label,
    minLength: count,
    maxLength: count,
    format: z.enum(['email', 'uri', 'date', 'date-time']).optional(),
    default: z.string().optional(),
  }),
  z.strictObject({
    type: z.enum(['number', 'integer']),
    ...label,
    minimum: z.number().optional(),
    maximum: z.number().optional(),
    default: z.number().optional(),
  }),
  z.strictObject({ type: z.literal('boolean'), ...label, default: z.boolean().optional() }),
  z.strictObject({ type: z.literal('choice'), ...label, options: z.array(Option), default: z.string().optional() }),
  z.strictObject({
    type: z.literal('choices'),
    ...label,
    options: z.array(Option),
    minItems: count,
    maxItems: count,
    default: z.array(z.string()).optional(),
  }),
]);
export type FormField = z.infer<typeof FormField>;

const message = z.string();
/** Covers the key and the whole request as the server sent it: an equal hash means the same question. */
const hash = Sha256Hex;
/** MAC of the zone over question, hash, key and call: a worker was asked this. Absent on an open connection. */
const mac = Sha256Hex.optional();

export const FormRequest = z.strictObject({
  kind: z.literal('form'),
  message,
  fields: z.record(z.string(), FormField),
  required: z.array(z.string()),
  hash,
  mac,
});
export type FormRequest = z.infer<typeof FormRequest>;

/** A page that a person is to open: https, without user name and password. We never open it. */
export const UrlRequest = z.strictObject({
  kind: z.literal('url'),
  message,
  url: z.string(),
  /** The whole host in ASCII, with the port unless it is 443. */
  host: z.string(),
  hash,
  mac,
});

export const InputRequest = z.discriminatedUnion('kind', [FormRequest, UrlRequest]);
export type InputRequest = z.infer<typeof InputRequest>;

export const InputRequests = z.record(z.string(), InputRequest);
export type InputRequests = z.infer<typeof InputRequests>;

export const FormValue = z.union([z.string(), z.number(), z.boolean(), z.array(z.string())]);
export type FormValue = z.infer<typeof FormValue>;

/** The response as the server gets it. `decline` is a no; `cancel` is no answer. */
export const InputResponse = z.discriminatedUnion('action', [
  z.strictObject({ action: z.literal('accept'), content: z.record(z.string(), FormValue).optional() }),
  z.strictObject({ action: z.literal('decline') }),
  z.strictObject({ action: z.literal('cancel') }),
]);
export type InputResponse = z.infer<typeof InputResponse>;

/** An answer, kept as long as its call is open, with the hash of its question. */
export const InputAnswer = z.strictObject({ hash, response: InputResponse });
export type InputAnswer = z.infer<typeof InputAnswer>;

/** A server's `requestState`, which is secret: a JWE (RFC 7516 §7.2.2) that only workers of its zone open. */
export const SealedState = z.strictObject({
  protected: z.string(),
  iv: z.string(),
  ciphertext: z.string(),
  tag: z.string(),
});
export type SealedState = z.infer<typeof SealedState>;
