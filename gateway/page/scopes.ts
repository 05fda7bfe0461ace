/**
 * Says scopes of an authorization in words. A scope is the authorization server's own text (RFC 6749 §3.3): nobody but
 * the server knows what it means, so its words come first and the rendering of its name is said to be one.
 */
import { foreign } from './kit/faithful.ts';
import { type Html, markup } from './kit/markup.ts';

const VERBS: ReadonlyMap<string, string> = new Map([
  ['read', 'read'],
  ['readonly', 'read'],
  ['view', 'read'],
  ['get', 'read'],
  ['list', 'list'],
  ['write', 'change'],
  ['edit', 'change'],
  ['update', 'change'],
  ['modify', 'change'],
  ['manage', 'manage'],
  ['admin', 'do everything with'],
  ['create', 'create'],
  ['delete', 'delete'],
  ['send', 'send'],
]);
/** Scopes that OpenID Connect defines (Core 1.0 §5.4, §11). */
const KNOWN: ReadonlyMap<string, string> = new Map([
  ['openid', 'know who you are'],
  ['profile', 'read your profile: name, picture, language'],
  ['email', 'read your e-mail address'],
  ['address', 'read your postal address'],
  ['phone', 'read your phone number'],
  ['offline_access', 'stay authorized while you are away'],
]);

/** Names with characters that join words are taken apart; anything else has no words. */
const PART = /^[a-z][a-z0-9_-]{0,40}$/i;

/** @returns undefined where the name says nothing that can be put in words */
export function scopeWords(scope: string): string | undefined {
  const known = KNOWN.get(scope);
  if (known !== undefined) return known;
  // Many are written as addresses: `https://www.googleapis.com/auth/calendar.readonly`.
  const name = /^https:\/\/[^/]+\/(?:.*\/)?([^/]+)$/.exec(scope)?.[1] ?? scope;
  const parts = name.split(/[.:/]/);
  if (parts.length < 2 || !parts.every((part) => PART.test(part))) return undefined;
  const ends = [parts.at(-1), parts[0]] as const;
  const verb = ends.find((part) => part !== undefined && VERBS.has(part.toLowerCase()));
  if (verb === undefined) return undefined;
  const things = parts.filter((part) => part !== verb).map((part) => part.replaceAll(/[_-]/g, ' '));
  return things.length === 0 ? undefined : `${VERBS.get(verb.toLowerCase()) ?? verb} ${things.join(', ')}`;
}

export function scopesView(scopes: readonly string[]): Html {
  const isRendered = scopes.some((scope) => scopeWords(scope) !== undefined);
  return markup`<ul class="scopes">
      ${scopes.map((scope) => {
        const words = scopeWords(scope);
        return markup`<li><code>${foreign(scope)}</code>${words !== undefined && markup` <span>${words}</span>`}</li>`;
      })}
    </ul>
    ${isRendered && markup`<p class="note">The words are read from the names; what a scope allows is the server's to say.</p>`}`;
}
