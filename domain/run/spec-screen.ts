/**
 * Looks for what a spec must not hold, before its shape is checked, so that the error names the real mistake.
 *
 * 1. A clear secret stays in history for ever: the spec is refused, with the advice to rotate it (INV-S1).
 * 2. Approvals count only as `decide` updates: an input item that looks like an approval is refused by name.
 * 3. A finding shows a path, never a value.
 */
import { hasSecretParameter } from '../text/urls.ts';

export interface Finding {
  readonly code: 'SECRET_IN_SPEC' | 'AUTHORIZATION_IN_HEADERS' | 'APPROVAL_ITEM_IN_INPUT';
  readonly path: string;
  readonly message: string;
}

const SECRET_KEY = /^(authorization|(access|refresh|id|bearer|auth)?_?token|api_?key|(client_?)?secret|password)$/i;
const SECRET_VALUE = /^\s*(bearer|basic)\s+\S|^eyJ[\w-]{8,}\.[\w-]{8,}\./i;
const URL_USER = /^[a-z][a-z0-9+.-]*:\/\/[^/?#]*@/i;
const APPROVAL_ITEM = /approv|decision/i;
const SCREENED = ['servers', 'grants', 'initiator', 'agent', 'policy', 'limits', 'authorization', 'headers', 'token'];
/** Advice for a secret that a workflow was started with. */
const ROTATE =
  'It is now in the history of the workflow: rotate it, and send it sealed as grants[].jwe (see docs/guide/grants.md).';
/** Advice where no workflow was started yet. */
export const UNSENT =
  'Nothing was started, so it stands in no history. Give it as the authorization of its server, which is sealed (see docs/guide/grants.md).';

/** @param advice ends the message about a secret */
export function screenSpec(spec: unknown, advice = ROTATE): Finding | undefined {
  if (!isRecord(spec)) return undefined;
  for (const part of SCREENED) {
    const found = secretIn(spec[part], part, part, advice);
    if (found !== undefined) return found;
  }
  return approvalItemIn(spec['input']);
}

function secretIn(value: unknown, path: string, key: string, advice: string): Finding | undefined {
  if (typeof value === 'string') return secretText(value, path, key, advice);
  const isList = Array.isArray(value);
  // Schemas and policies name properties without values; a sealed grant is ciphertext. A list of tools is neither.
  if (!isList && (!isRecord(value) || key === 'output' || key === 'tools' || key === 'jwe')) return undefined;
  for (const [name, item] of Object.entries(value)) {
    const found = isList
      ? secretIn(item, `${path}[${name}]`, '', advice)
      : secretIn(item, `${path}.${name}`, name, advice);
    if (found !== undefined) return found;
  }
  return undefined;
}

function secretText(value: string, path: string, key: string, advice: string): Finding | undefined {
  if (/headers\.[^.]*authorization$/i.test(path)) {
    return {
      code: 'AUTHORIZATION_IN_HEADERS',
      path,
      message: `${path} holds an Authorization header; use the authorization of the server instead. ${advice}`,
    };
  }
  // Instructions may mention bearer tokens in prose, so their text is not searched; nobody sends a bare secret there.
  const isProse = key === 'instructions';
  const isSecret = SECRET_VALUE.test(value) || URL_USER.test(value) || hasSecretParameter(value);
  if (SECRET_KEY.test(key) || (!isProse && isSecret)) {
    return { code: 'SECRET_IN_SPEC', path, message: `${path} holds a secret in clear. ${advice}` };
  }
  return undefined;
}

function approvalItemIn(input: unknown): Finding | undefined {
  if (!Array.isArray(input)) return undefined;
  for (const [index, item] of input.entries()) {
    if (!isRecord(item)) continue;
    const type = item['type'];
    const role = item['role'];
    const named = [typeof type === 'string' ? type : '', ...Object.keys(item)].find((word) => APPROVAL_ITEM.test(word));
    const word = named === undefined ? roleWord(role) : typeName(named);
    if (word === undefined) continue;
    const path = `input[${index}]`;
    const message = `${path} (${word}) is no user message; approvals count only as a \`decide\` update, and have no effect in input.`;
    return { code: 'APPROVAL_ITEM_IN_INPUT', path, message };
  }
  return undefined;
}

/** Type and role are values, so they are shown only if they are words of the provider APIs. */
function typeName(given: string): string {
  return /^[a-z]+([_.-][a-z]+)*$/i.test(given) ? given.slice(0, 64) : 'an approval';
}

function roleWord(role: unknown): string | undefined {
  if (typeof role !== 'string' || role === 'user') return undefined;
  return ['system', 'developer', 'assistant', 'tool', 'function'].includes(role)
    ? `role ${role}`
    : 'another role than user';
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
