/** Checks what the schema of a configuration cannot express: where secrets may go, how its parts fit together. */
import { isNameable } from '../../activities/egress/address.ts';
import { urlObjection } from '../../activities/egress/fetch.ts';
import { clientsOf, credentialsOf } from '../../activities/tokens/configured.ts';
import { TENANT_PREFIX } from '../../activities/tokens/issued.ts';
import { assertNoAuthorizationHeader } from '../../contracts/access-token.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { CALLER_MODEL } from '../../contracts/names.ts';
import type { Config } from '../../contracts/schemas/config.ts';
import type { Channel } from '../../contracts/schemas/channels.ts';
import { pathText } from '../../contracts/schemas/parse.ts';
import { DEFAULT_ARTIFACTS } from '../../contracts/schemas/stores.ts';
import { isTrustUrl } from '../../contracts/schemas/trust.ts';
import { mayHost, requiresBoundTokens } from '../../domain/run/hosted.ts';
import { canonicalJson } from '../../domain/text/canonical.ts';
import { canonicalServerUrl, isSecurelyReached, namesSecret } from '../../domain/text/urls.ts';
import { conditionProblems, routeToNowhere } from './warnings.ts';
import { zoneKeysOf } from './secrets.ts';

/** Ceiling of a run's duration if the operator states none (`contracts/schemas/run-spec.ts`). */
const LONGEST_RUN_SECONDS = 31_536_000;

type Refuse = (path: string, reason: string) => never;

/** Checks run in this order, so the first refusal is reported. */
const CHECKS: readonly ((config: Config, refuse: Refuse) => void)[] = [
  checkHeaders,
  checkUrls,
  refuseDifferentLimits,
  checkStores,
  checkEgress,
  ({ policy }, refuse) => {
    for (const { path, reason } of conditionProblems(policy)) refuse(path, reason);
  },
  checkHosted,
  checkModels,
  checkPrices,
  checkIssuer,
  checkKeyIds,
  checkRefreshTokens,
  checkChannels,
];

export function checkConfig(config: Config, what: string): void {
  const refuse: Refuse = (path, reason) => {
    const message = `The ${what} is not valid: ${path} ${reason}. Correct it and try again.`;
    throw new CountersignError('CONFIG_INVALID', message, { path });
  };
  for (const check of CHECKS) check(config, refuse);
}

function checkHeaders(config: Config): void {
  for (const [name, { headers }] of Object.entries(config.servers)) {
    const server = pathText(['servers', name]);
    assertNoAuthorizationHeader(headers, `${server}.headers`, `${server}.credentials`);
  }
}

function checkUrls(config: Config, refuse: Refuse): void {
  for (const { path, url } of [...contactedUrls(config), ...identifiers(config)]) {
    const { username, password, hash, searchParams } = new URL(url);
    if (username !== '' || password !== '')
      refuse(path, 'must not hold a user name or password: a URL is shown in logs and requests');
    if ([...searchParams.keys()].some(namesSecret))
      refuse(path, 'must not hold a secret in its query: a URL stands in history. Use headers or credentials');
    if (hash !== '' || url.endsWith('#')) refuse(path, 'must not have a fragment (RFC 8707 §2)');
  }
}

function checkStores(config: Config, refuse: Refuse): void {
  const { artifacts, ledger } = config;
  if (artifacts.s3 !== undefined && artifacts.directory !== DEFAULT_ARTIFACTS)
    refuse('artifacts', 'must name a directory or s3, not both: an artifact has one place');
  const longestRunDays = Math.ceil((config.limits.wallClockSeconds ?? LONGEST_RUN_SECONDS) / 86_400);
  if (artifacts.retentionDays !== undefined && artifacts.retentionDays <= longestRunDays)
    refuse(
      'artifacts.retentionDays',
      `must be more than ${longestRunDays}, the days that a run may last here (limits.wallClockSeconds): it needs what it began with`,
    );
  // This holds whatever egress allows: an impostor would acknowledge records that are kept nowhere.
  if (ledger?.webhook !== undefined && !isSecurelyReached(new URL(ledger.webhook.url), false))
    refuse('ledger.webhook.url', 'must use https, save to this machine');
  if (ledger !== undefined && ledger.directory === undefined && ledger.webhook === undefined)
    refuse('ledger', 'must name a directory or a webhook: it signs what is delivered there');
}

function checkEgress(config: Config, refuse: Refuse): void {
  for (const { path, url } of contactedUrls(config)) {
    const forbidden = urlObjection(url, config.egress);
    if (forbidden !== undefined) refuse(path, forbidden);
  }
  for (const [index, cidr] of config.egress.allowPrivate.entries())
    if (!isNameable(cidr))
      refuse(
        pathText(['egress', 'allowPrivate', index]),
        'must be a private range, or a part of one (docs/operations/egress.md)',
      );
  for (const { path, url } of origins(config)) {
    if (!isOrigin(url)) refuse(path, 'must be an origin: scheme, host and port, in lower case and without a path');
  }
}

/** What the API takes as `server_label`. */
const LABEL = /^[A-Za-z][A-Za-z0-9_-]*$/;

function checkHosted({ servers }: Config, refuse: Refuse): void {
  for (const [name, server] of Object.entries(servers)) {
    const { execute = 'local' } = server;
    if (execute === 'hosted' && requiresBoundTokens(server))
      refuse(
        pathText(['servers', name, 'execute']),
        'is hosted, and its tokens must be bound to a key (senderConstrained: required), which no provider can show: configure execute: local or auto',
      );
    if (execute !== 'local' && !LABEL.test(name))
      refuse(
        pathText(['servers', name]),
        `has a name that providers do not take (execute: ${execute}): begin with a letter, and use letters, digits, _ and - alone`,
      );
  }
}

function checkModels({ models }: Config, refuse: Refuse): void {
  if (Object.hasOwn(models, CALLER_MODEL))
    refuse(pathText(['models', CALLER_MODEL]), 'is the name of the model of single calls: choose another');
  for (const [name, model] of Object.entries(models)) {
    if (model.provider === 'scripted') continue;
    if (model.provider !== 'openai' && model.asksBeforeCalls === true)
      refuse(
        pathText(['models', name, 'asksBeforeCalls']),
        `is for models of provider openai alone: through ${model.provider} no provider calls servers`,
      );
    if (model.storesAnswers === true && !mayHost({ models }, name))
      refuse(
        pathText(['models', name, 'storesAnswers']),
        'is for models whose provider calls servers: those of provider openai without baseUrl, or with asksBeforeCalls: true',
      );
  }
}

function checkPrices(config: Config, refuse: Refuse): void {
  const priced = Object.entries(config.models).map(([name, { price }]) => ({ name, price }));
  const currency = priced.find(({ price }) => price !== undefined)?.price?.currency;
  for (const { name, price } of priced) {
    const path = pathText(['models', name, 'price']);
    if (price === undefined && config.limits.spend !== undefined)
      refuse(path, 'is missing, and limits.spend bounds what runs may spend: state it, "0" where nothing is paid');
    if (price !== undefined && price.currency !== currency)
      refuse(`${path}.currency`, `must be ${currency}, as of the other models: a limit has one currency`);
  }
}

function checkIssuer(config: Config, refuse: Refuse): void {
  const { issuer } = config;
  for (const { path, credentials } of credentialsOf(config))
    if (credentials.kind === 'issued' && issuer === undefined)
      refuse(pathText(path), 'is issued, and there is no issuer: state its url and keys');
  if (issuer === undefined) return;
  if (!isSecurelyReached(new URL(issuer.url), config.egress.allowInsecure))
    refuse('issuer.url', 'must use https: who answers in its place would issue tokens');
  // Servers look for its metadata at the root, whatever the path (RFC 8414 §3.1), and workers answer there.
  if (!isOrigin(issuer.url))
    refuse('issuer.url', 'must be an origin: its keys are published at the root, under /.well-known');
  if (TENANT_PREFIX.test(issuer.clientId))
    refuse('issuer.clientId', 'must not begin like TENANT/: so do the subjects of its tokens');
}

/** A key is recognised by its id, so ids must differ. */
function checkKeyIds(config: Config, refuse: Refuse): void {
  const { issuer, grants, vault, encryption } = config;
  const lists: readonly (readonly [path: string, field: string, ids: readonly string[]])[] = [
    ['issuer.keys', 'kid', (issuer?.keys ?? []).map(({ kid }) => kid)],
    ['grants.keys', 'kid', grants.keys.map(({ kid }) => kid)],
    ['vault.keys', 'id', (vault?.kind === 'directory' ? vault.keys : []).map(({ id }) => id)],
    ['trust.zone.keys', 'id', zoneKeysOf(config).map(({ id }) => id)],
    ['encryption.keys', 'id', encryption.keys.map(({ id }) => id)],
  ];
  for (const [path, field, ids] of lists) {
    const at = ids.findIndex((id, index) => ids.indexOf(id) !== index);
    if (at !== -1) refuse(`${path}[${at}].${field}`, 'stands in the list already; each key needs its own');
  }
}

function checkRefreshTokens(config: Config, refuse: Refuse): void {
  for (const { path, credentials } of credentialsOf(config)) {
    if (credentials.kind !== 'refresh') continue;
    if (config.vault === undefined)
      refuse(pathText(path), 'is refresh, and there is no vault that would hold refresh tokens: configure vault');
    if (config.vault?.kind === 'environment' && credentials.refreshTokens === 'single-use')
      refuse(
        pathText([...path, 'refreshTokens']),
        'is single-use, and an environment cannot keep what replaces a token: use a vault of kind directory, or state reusable where the issuer replaces none',
      );
  }
}

function isOrigin(url: string): boolean {
  const { origin } = new URL(url);
  return url === origin || url === `${origin}/`;
}

/** A server is its address, so it has one set of limits. */
function refuseDifferentLimits({ servers }: Config, refuse: Refuse): void {
  const seen = new Map<string, { readonly name: string; readonly limits: string }>();
  for (const [name, { url, limits }] of Object.entries(servers)) {
    if (limits === undefined) continue;
    const at = canonicalServerUrl(url);
    const before = seen.get(at);
    if (before !== undefined && before.limits !== canonicalJson(limits))
      refuse(pathText(['servers', name, 'limits']), `must be those of ${before.name}, which has the same address`);
    seen.set(at, { name, limits: canonicalJson(limits) });
  }
}

/** A URL of the configuration. URLs are grouped by purpose, since each kind has its own checks. */
interface ConfiguredUrl {
  readonly path: string;
  readonly url: string;
}

function checkChannels({ policy, notify, egress }: Config, refuse: Refuse): void {
  const nowhere = routeToNowhere(policy, Object.keys(notify.channels));
  if (nowhere !== undefined) refuse(nowhere.path, `names no channel of notify.channels: ${nowhere.channel}`);
  for (const [name, channel] of Object.entries(notify.channels)) {
    if (channel.kind !== 'mail') continue;
    const { host, tls, user, password } = channel;
    const path = ['notify', 'channels', name];
    const isHere = isSecurelyReached(
      new URL(`http://${host.includes(':') ? `[${host}]` : host}`),
      egress.allowInsecure,
    );
    if (tls === 'none' && !isHere)
      refuse(pathText([...path, 'tls']), 'must not be none: mail and password would go in clear to another host');
    if ((user === undefined) !== (password === undefined))
      refuse(pathText([...path, 'password']), 'belongs to a user: state both, or neither');
  }
}

/** Returns addresses to which this process connects. */
export function contactedUrls(config: Config): ConfiguredUrl[] {
  const at = (path: readonly PropertyKey[], url: string | undefined): ConfiguredUrl[] =>
    url === undefined ? [] : [{ path: pathText(path), url }];
  const { servers, models, ledger, notify, artifacts, trust, gateway, codecServer } = config;
  return [
    ...Object.entries(servers).flatMap(([name, { url }]) => at(['servers', name, 'url'], url)),
    ...clientsOf(config).map(({ path, client }) => ({ path: `${path}.issuer`, url: client.issuer })),
    ...Object.entries(models).flatMap(([name, model]) =>
      model.provider === 'scripted' ? [] : at(['models', name, 'baseUrl'], model.baseUrl),
    ),
    ...at(['ledger', 'webhook', 'url'], ledger?.webhook?.url),
    ...Object.entries(notify.channels).flatMap(([name, channel]) => at(...addressIn(name, channel))),
    ...at(['artifacts', 's3', 'endpoint'], artifacts.s3?.endpoint),
    ...(trust.mode === 'signed' && isTrustUrl(trust.jwks) ? at(['trust', 'jwks'], trust.jwks) : []),
    ...at(['gateway', 'oidc', 'issuer'], gateway?.oidc?.issuer),
    ...at(['gateway', 'oidc', 'jwksUri'], gateway?.oidc?.jwksUri),
    ...at(['gateway', 'slack', 'responseUrl'], gateway?.slack?.responseUrl),
    ...at(['codecServer', 'oidc', 'issuer'], codecServer?.oidc?.issuer),
    ...at(['codecServer', 'oidc', 'jwksUri'], codecServer?.oidc?.jwksUri),
    ...origins(config),
  ];
}

function addressIn(name: string, channel: Channel): [path: readonly PropertyKey[], url: string | undefined] {
  const path = ['notify', 'channels', name];
  switch (channel.kind) {
    case 'webhook':
      return [[...path, 'url'], channel.url];
    case 'slack':
      return [[...path, 'apiUrl'], channel.apiUrl];
    case 'slack-webhook':
      return [[...path, 'webhookUrl'], channel.webhookUrl];
    case 'mail':
      return [path, undefined];
  }
}

/** Returns origins of servers that runs and catalogs name, of token endpoints, and of those for credentials. */
function origins(config: Config): ConfiguredUrl[] {
  const listed = (path: readonly PropertyKey[], urls: readonly string[]): ConfiguredUrl[] =>
    urls.map((url, index) => ({ path: pathText([...path, index]), url }));
  return [
    ...listed(['egress', 'runServers'], config.egress.runServers),
    ...listed(['egress', 'issuerEndpoints'], config.egress.issuerEndpoints),
    ...listed(['catalog', 'origins'], config.catalog.origins),
    ...Object.entries(config.credentials).flatMap(([name, named]) =>
      listed(['credentials', name, 'origins'], named.origins),
    ),
  ];
}

function identifiers(config: Config): ConfiguredUrl[] {
  const resources = credentialsOf(config).flatMap(({ path, credentials }) =>
    'resource' in credentials && credentials.resource !== undefined
      ? [{ path: pathText([...path, 'resource']), url: credentials.resource }]
      : [],
  );
  return [...resources, ...(config.issuer === undefined ? [] : [{ path: 'issuer.url', url: config.issuer.url }])];
}
