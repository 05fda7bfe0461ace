/**
 * Starts a worker that is an issuer, and three servers that trust an issuer and verify every token. An
 * authorization server exchanges what callers seal.
 * One run makes three calls: one that bob countersigned, one that policy allows, and one in the caller's name.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { RunHandle } from '../../client/index.ts';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import { freePort } from '../../workers/dev-server.ts';
import { startEngine } from './engine.ts';
import { type GuardedServer, startGuardedServer } from './guarded-server.ts';
import { keepZoneKey } from './keys.ts';
import { EXCHANGE, exchangeGrant, identity } from './oauth-grants.ts';
import { type RunningProvider, startProvider } from './oauth.ts';
import { signingKey } from './signing-key.ts';
import { decisionOn, openRequests, startWorld, type World } from './world.ts';

export const ISSUER = 'https://countersign.example.com';
const SCOPES = { discovery: ['list'], default: ['look'], tools: { pay: ['pay'] } };
const AT_SERVER = { 'tools/list': 'list', look: 'look', pay: 'pay' };
export const PAYMENT = { amount: 5, to: 'ben', note: 'é €' };

export interface CountersignedScene {
  readonly world: World;
  readonly provider: RunningProvider;
  /** Two servers want a token for exactly the call; `pay` wants one that bob has countersigned. */
  readonly bank: GuardedServer;
  readonly other: GuardedServer;
  /** Accepts tokens of the authorization server. */
  readonly desk: GuardedServer;
  /** Trusts another issuer than the configured one. */
  readonly strayed: GuardedServer;
  /** Address of the worker's health port. */
  readonly health: string;
  /** The assertion that the caller sealed. */
  readonly assertion: string;
  readonly run: RunHandle;
  readonly request: ApprovalRequest;
  /** Everything that tool servers received for the run, without requests of the tests themselves. */
  readonly received: string;
  close(): Promise<void>;
}

export async function startCountersignedScene(): Promise<CountersignedScene> {
  const engine = await startEngine();
  const port = await freePort();
  const health = `http://127.0.0.1:${port}`;
  const keysUrl = () => `${health}/.well-known/jwks.json`;
  const rules = { issuer: ISSUER, keysUrl, scopes: AT_SERVER, countersigned: { pay: ['bob'], look: [] } };
  const elsewhere = { ...rules, issuer: 'https://elsewhere.example.com', openListing: true };
  const [bank, other, strayed] = await Promise.all([
    startGuardedServer(rules),
    startGuardedServer(rules),
    startGuardedServer(elsewhere),
  ]);
  const [first, second, clientKey, people] = await Promise.all([
    signingKey('issuer-1'),
    signingKey('issuer-2', 'EdDSA'),
    signingKey('client-1'),
    identity(),
  ]);
  for (const key of [first, second, clientKey])
    await writeFile(join(engine.directory, key.config.privateKeyFile), key.pem);
  const zone = await keepZoneKey(engine.directory);
  const resources: Record<string, string> = {};
  const provider = await startProvider({
    clients: [
      { id: 'countersign', authMethod: 'private_key_jwt', publicJwk: clientKey.publicJwk, grantTypes: [EXCHANGE] },
    ],
    resources,
    scopes: ['list', 'look', 'pay'],
    grants: { [EXCHANGE]: exchangeGrant({ people, resources, actor: clientKey.publicJwk }) },
  });
  const desk = await startGuardedServer({
    issuer: provider.issuer,
    keysUrl: () => `${provider.issuer}/jwks`,
    scopes: AT_SERVER,
  });
  resources[desk.url] = 'list look pay';
  const assertion = await people.assertion('ann@example.com', provider.issuer);
  const exchanged = { issuer: provider.issuer, clientId: 'countersign', clientKey: clientKey.config, scopes: SCOPES };
  const world = await startWorld({
    engine,
    config: {
      servers: {
        bank: { url: bank.url, credentials: { kind: 'issued', scopes: SCOPES } },
        strayed: { url: strayed.url, credentials: { kind: 'issued', scopes: SCOPES } },
        desk: { url: desk.url, credentials: { kind: 'token-exchange', ...exchanged, revoke: true } },
      },
      issuer: { url: ISSUER, keys: [first.config, second.config], lifetimeSeconds: 90 },
      health: { port },
      grants: zone.grants,
      policy: {
        givenTokens: 'deny',
        approvers: { ids: ['bob'] },
        servers: {
          bank: { default: 'allow', tools: { pay: 'ask' } },
          desk: { default: 'allow' },
          strayed: { default: 'allow' },
        },
      },
    },
    client: { servers: { desk: { url: desk.url, key: zone.publicJwk } } },
  });
  const calls = [
    { tool: 'bank/pay', arguments: PAYMENT },
    { tool: 'bank/look', arguments: {} },
    { tool: 'desk/pay', arguments: {} },
  ];
  const run = await world.start(
    [{ calls }, { text: 'Done.' }],
    { servers: [{ name: 'bank' }, { name: 'desk' }] },
    { authorizations: { desk: assertion } },
  );
  const [request] = await openRequests(run);
  if (request === undefined) throw new Error('there is no request');
  await run.decide(decisionOn(request, 'bob'));
  await run.result();
  const received = `${bank.received()}\n${desk.received()}`;
  return {
    world,
    provider,
    bank,
    other,
    desk,
    strayed,
    health,
    assertion,
    run,
    request,
    received,
    close: async () => {
      await world.stop();
      await engine.stop();
      await Promise.all([bank, other, desk, strayed, provider].map((part) => part.close()));
    },
  };
}
