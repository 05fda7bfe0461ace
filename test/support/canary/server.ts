/**
 * Serves a tool server that leaks every secret it is sent: in tool definitions, results, errors, progress and
 * log messages. Forms are plain, URL-encoded, JSON, and base64 at every alignment.
 * One tool writes secrets in every form that is promised to be found, one form inside another, and in pieces.
 */
import { randomBytes } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { Holds } from '../servers/holds.ts';
import { type CallExchange, type RawServer, type RawServerScript, startRawServer } from '../servers/raw-server.ts';
import { encodedTwice, ENCODINGS } from './scan.ts';

export interface CanaryServer extends RawServer {
  /** Waits until a call of `held` has reported progress. */
  held(): Promise<void>;
  /** Lets held calls answer. */
  release(): void;
  /** Says whether listings are refused from now on. A refusal quotes everything that was sent. */
  refuseListing(refused: boolean): void;
}

type Tool = (exchange: CallExchange, echo: string) => void;

/** Resource that `link` links to; reading it leaks everything that was sent. */
export const READABLE = 'canary://all';

const text = (value: string) => ({ type: 'text', text: value });

export const CANARY_TOOLS: Readonly<Record<string, Tool>> = {
  words: (exchange, echo) => exchange.result({ content: [text(echo)] }),
  error: (exchange, echo) => exchange.result({ isError: true, content: [text(echo)] }),
  structured: (exchange, echo) => exchange.result({ content: [], structuredContent: { [echo]: [{ deep: echo }] } }),
  image: (exchange, echo) =>
    exchange.result({ content: [{ type: 'image', mimeType: `image/${echo}`, data: base64(echo) }] }),
  resource: (exchange, echo) =>
    exchange.result({
      content: [
        {
          type: 'resource',
          resource: { uri: `file:///${encodeURIComponent(echo)}`, mimeType: echo, blob: base64(echo) },
        },
      ],
    }),
  link: (exchange, echo) =>
    exchange.result({
      content: [
        { type: 'resource_link', uri: `https://x.test/?${echo}`, name: echo, description: echo },
        { type: 'resource_link', uri: READABLE, name: echo },
      ],
    }),
  strange: (exchange, echo) => exchange.result({ content: [{ type: echo, text: echo }], _meta: { [echo]: echo } }),
  encoded: (exchange) =>
    exchange.result({ content: secretsIn(exchange).map((secret) => text(pairsIn(secret).join('\n'))) }),
  pieces: (exchange) => {
    const all = secretsIn(exchange).flatMap((secret) => [secret, base64(secret)]);
    const halves = all.map((form) => [form.slice(0, 11), form.slice(11)] as const);
    exchange.result({
      content: halves.flat().map(text),
      structuredContent: {
        fields: Object.fromEntries(halves),
        list: all.map((form) => form.match(/.{1,7}/gs)),
        bytes: all.map((form) => [...Buffer.from(form)]),
        objects: halves.map(([first, second]) => ({ first, second })),
      },
    });
  },
  'encoded-error': (exchange) =>
    exchange.error(
      -32_603,
      secretsIn(exchange)
        .flatMap((secret) => Object.values(ENCODINGS).map((encode) => encode(secret)))
        .join(' '),
    ),
  large: (exchange, echo) => exchange.result({ content: [text(`${echo}\n`.repeat(Math.ceil(LARGE / echo.length)))] }),
  halfway: (exchange, echo) => exchange.result({ resultType: echo, content: [] }),
  'rpc-refused': (exchange, echo) => exchange.error(-32_602, `bad parameters ${echo}`),
  'rpc-failed': (exchange, echo) => exchange.error(-32_603, echo),
  forbidden: (exchange, echo) => exchange.status(403, { 'content-type': 'text/plain' }, echo),
  scope: (exchange, echo) =>
    exchange.status(403, {
      'www-authenticate': `Bearer error="insufficient_scope", scope="${firstLine(echo)}", error_description="${firstLine(echo)}"`,
    }),
  unauthorized: (exchange, echo) =>
    exchange.status(401, { 'www-authenticate': `Bearer realm="${firstLine(echo)}"` }, echo),
  broken: (exchange, echo) => exchange.status(500, {}, echo),
  html: (exchange, echo) => exchange.status(200, { 'content-type': 'text/html' }, `<p>${echo}</p>`),
  unparsable: (exchange, echo) => exchange.json(`{"jsonrpc":"2.0","result":${echo}`),
};

export interface CanaryServerOptions {
  readonly refusesListing?: boolean;
  /** True if the server also leaks the claims of its token. */
  readonly readsTokens?: boolean;
}

export async function startCanaryServer(options: CanaryServerOptions = {}): Promise<CanaryServer> {
  const { refusesListing = false, readsTokens = false } = options;
  const holds = new Holds();
  let isRefusing = refusesListing;
  const hold: Tool = (exchange, echo) => {
    // Sound: MCP's `_meta` is an object.
    const { progressToken } = (exchange.params['_meta'] ?? {}) as { progressToken?: unknown };
    const notice = (method: string, params: object): string =>
      `data: ${JSON.stringify({ jsonrpc: '2.0', method, params })}\n\n`;
    exchange.stream(
      notice('notifications/progress', { progressToken, progress: 7, message: echo }) +
        notice('notifications/message', { level: 'error', logger: echo, data: echo }),
    );
    holds.hold(() => exchange.response.end(`data: ${exchange.answerWith({ content: [text(echo)] })}\n\n`));
  };
  const tools: Readonly<Record<string, Tool>> = { ...CANARY_TOOLS, held: hold };
  const onCall = (exchange: CallExchange): void => {
    exchange.execute();
    const { headers } = exchange.request;
    // Definitions leave these out: with everything in them they would be refused for their size.
    const hidden = readsTokens ? claimsIn(headers.authorization ?? '').flatMap(formsOf) : [];
    tools[String(exchange.params['name'])]?.(exchange, [echoOf(headers), ...hidden].join('\n'));
  };
  // A read leaks what came with it.
  const onRead = (exchange: CallExchange): void => {
    exchange.execute();
    const echo = echoOf(exchange.request.headers);
    const uri = `file:///${encodeURIComponent(echo)}`;
    exchange.result({
      contents: [
        { uri, mimeType: echo, text: echo },
        { uri, mimeType: echo, blob: base64(echo) },
      ],
      ttlMs: 0,
      cacheScope: 'private',
    });
  };
  const intercept: RawServerScript['intercept'] = (request, response, rpcMethod) => {
    if (rpcMethod !== 'tools/list') return false;
    const { headers } = request;
    // Definitions leave out what stands before a token: with all of it they would be refused for their size.
    const plain = secretHeaders(headers).map(withoutScheme).flatMap(formsOf);
    if (isRefusing) response.writeHead(403, { 'content-type': 'text/plain' }).end(echoOf(headers));
    else server.become({ ...script, pages: [definitions(Object.keys(tools), plain)] });
    return isRefusing;
  };
  const script: RawServerScript = { era: 'modern', onCall, onRead, intercept };
  const server = await startRawServer(script);
  return {
    ...server,
    held: () => holds.held(),
    release: () => holds.release(),
    refuseListing: (refused) => {
      isRefusing = refused;
    },
  };
}

const PLACES = 6;
/** Tools that leak at one place; each has its part of the forms. */
const SHARES = 3;

/** Two further tools cannot be offered; people see their names as refused. */
function definitions(names: readonly string[], forms: readonly string[]): readonly object[] {
  if (names.length < PLACES * SHARES) throw new Error(`${names.length} tools do not leak every form at every place`);
  const echo = forms.join('\n');
  // All tools together leak every form at every place. A definition that leaked everywhere would be too large.
  const good = names.map((name, index) => {
    const share = forms.filter((_, form) => form % SHARES === Math.floor(index / PLACES) % SHARES).join('\n');
    const at = (place: number): string => (index % PLACES === place ? share : '');
    const properties = { [at(0) || 'note']: { type: 'string', default: at(1) } };
    return {
      name,
      title: at(2),
      description: at(3),
      inputSchema: { type: 'object', description: at(4), properties },
      annotations: { title: at(5), [at(5)]: true },
    };
  });
  return [...good, { name: firstLine(echo), inputSchema: { type: 'object' } }, { name: 7, description: echo }];
}

/** Writes every header value that looks like a secret in many forms, one per line. */
function echoOf(headers: IncomingHttpHeaders): string {
  const values = secretHeaders(headers).flatMap((value) => [value, withoutScheme(value)]);
  return [...new Set(values)].flatMap(formsOf).join('\n');
}

function secretHeaders(headers: IncomingHttpHeaders): string[] {
  return Object.entries(headers).flatMap(([name, value]) =>
    name === 'authorization' || name === 'dpop' || name.startsWith('x-') ? [String(value)] : [],
  );
}

/** Characters, several times what a run keeps of a result. */
const LARGE = 1_000_000;

/**
 * Returns the secret in each encoding of each other, one pair of seven. Seven is prime to the number of encodings, so
 * each of them is inside and outside. All pairs are megabytes, in which the tests of the scrubber find secrets.
 */
function pairsIn(secret: string): readonly string[] {
  return encodedTwice(secret).filter((_, index) => index % 7 === 0);
}

function secretsIn({ request }: CallExchange): string[] {
  return secretHeaders(request.headers).map(withoutScheme);
}

function withoutScheme(value: string): string {
  return value.replace(/^(?:Bearer|DPoP) /, '');
}

/** Returns what an issuer wrote into a token that the server can read. */
function claimsIn(token: string): string[] {
  const [, payload = ''] = token.split('.');
  try {
    const claims: unknown = JSON.parse(Buffer.from(payload, 'base64url').toString());
    return claims === null || typeof claims !== 'object' ? [] : Object.values(claims).flatMap(textsIn);
  } catch {
    return [];
  }
}

function textsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  return value === null || typeof value !== 'object' ? [] : Object.values(value).flatMap(textsIn);
}

/** Writes a secret in the forms that a server may use; each of these is promised to be found (INV-S1). */
export function formsOf(secret: string): string[] {
  const escaped = encodeURIComponent(secret);
  const encoded = ['', 'a', 'ab', 'user:'].map((before) => base64(`${before}${secret}after`));
  return [
    secret,
    `before${secret}after`,
    JSON.stringify({ secret }),
    escaped,
    escaped.replaceAll(/%[0-9A-F]{2}/g, (code) => code.toLowerCase()),
    new URLSearchParams({ secret }).toString(),
    base64(secret),
    ...encoded,
    ...encoded.map((form) => form.replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')),
  ];
}

function base64(value: string): string {
  return Buffer.from(value).toString('base64');
}

/** Header values and property names hold no line breaks. */
function firstLine(echo: string): string {
  return echo.split('\n')[0]?.replaceAll('"', '') ?? '';
}

/** Makes a token that nobody has signed. */
export function jwtOf(typ: string, claims: object): string {
  const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');
  const exp = Math.floor(Date.now() / 1_000) + 90;
  return `${part({ alg: 'RS256', typ })}.${part({ ...claims, exp })}.${randomBytes(64).toString('base64url')}`;
}
