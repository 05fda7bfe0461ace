/**
 * Starts tool servers whose tokens are exchanged or issued. Their authorization servers hide what they were
 * shown in the tokens they give; the tool servers read it there and leak it, with the proofs that come with it.
 * A value that a worker shows to one server is a canary at all others.
 */
import { createHash, randomBytes } from 'node:crypto';
import { decodeProtectedHeader } from 'jose';
import { type FaultWorld, startFaultWorld } from '../faults/world.ts';
import { privateLines } from '../oauth/grants.ts';
import { type HostileServer, startHostile, type TokenRequestSeen } from '../oauth/provider.ts';
import { signingKey, zoneKey } from '../signing/keys.ts';
import type { WorkerProcess } from '../world/worker-process.ts';
import type { Canary } from './scan.ts';
import { type CanaryServer, formsOf, jwtOf, startCanaryServer } from './server.ts';
import { endedPieces, type Piece, piecesOfRun, storedPieces } from './stores.ts';
import { sharedBundle } from '../shared-bundle.ts';

export const EXCHANGED = ['exchanged', 'managed', 'issued'] as const;
type Name = (typeof EXCHANGED)[number];
/** Each tool leaks everything in its token in another way. */
const TELLING = ['words', 'error', 'structured', 'rpc-failed'];
const TOOLS = [...TELLING, 'scope', 'unauthorized'];

const BOUND = { senderConstrained: 'required' as const };

const TYPE = 'urn:ietf:params:oauth:token-type:';
const SHOWN = ['subject_token', 'actor_token', 'client_assertion', 'assertion', 'client_secret'];

export interface ExchangedScene {
  readonly world: FaultWorld;
  readonly worker: WorkerProcess;
  readonly servers: Readonly<Record<Name, CanaryServer>>;
  /** The token that callers seal. */
  readonly subject: string;
  /**
   * Two canaries of each kind: values shown to authorization servers, their tokens, callers' sealed tokens, and private
   * keys.
   */
  canaries(): readonly Canary[];
  /** Runs that call everything, and one whose authorization server refuses. */
  pieces(): Promise<readonly Piece[]>;
  close(): Promise<void>;
}

export async function startExchangedScene(): Promise<ExchangedScene> {
  const random = (): string => randomBytes(20).toString('hex');
  const subject = `subject~${random()}+/x==`;
  const clientSecret = `client-${random()}`;
  const given: string[] = [];
  const give = (token: string): string => {
    given.push(token);
    return token;
  };
  const hidden = ({ form }: TokenRequestSeen) => ({
    jti: form.get('subject_token') ?? form.get('assertion'),
    sub: form.get('client_assertion') ?? clientSecret,
    act: { sub: form.get('actor_token') },
  });
  const issuer = await startHostile({
    metadata: (at) => ({
      body: { issuer: at, token_endpoint: `${at}/token`, dpop_signing_alg_values_supported: ['ES256'] },
    }),
    token: (request) => {
      const aud = request.form.get('resource') ?? '';
      const { proof } = request;
      const bound = proof === undefined ? {} : { cnf: { jkt: thumbprintOf(proof) } };
      const token = give(jwtOf('at+jwt', { ...hidden(request), ...bound, iss: issuer.issuer, aud }));
      const type = proof === undefined ? 'Bearer' : 'DPoP';
      return {
        body: { access_token: token, token_type: type, expires_in: 90, issued_token_type: `${TYPE}access_token` },
      };
    },
  });
  const people = await startHostile({
    token: (request) => {
      const [aud, resource] = [request.form.get('audience'), request.form.get('resource')];
      const claims = { ...hidden(request), iss: people.issuer, aud, resource, client_id: 'countersign' };
      const token = give(jwtOf('oauth-id-jag+jwt', claims));
      return { body: { access_token: token, token_type: 'N_A', issued_token_type: `${TYPE}id-jag` } };
    },
  });
  const refuser = await startHostile({
    token: ({ authorization, form }) => {
      const echo = formsOf(`${authorization} ${[...form.values()].join(' ')}`).join(' ');
      return { status: 400, body: { error: 'invalid_grant', error_description: echo } };
    },
  });
  const [exchanged, managed, issued] = await Promise.all(
    EXCHANGED.map(async () => await startCanaryServer({ readsTokens: true })),
  );
  // Sound: there is one server for each name.
  const servers = { exchanged, managed, issued } as Record<Name, CanaryServer>;
  const [zone, clientKey, issuerKey] = [await zoneKey(), await signingKey('client'), await signingKey('issuer')];
  const signed = (at: HostileServer) => ({ issuer: at.issuer, clientId: 'countersign', clientKey: clientKey.config });
  const calls = EXCHANGED.flatMap((name) => TOOLS.map((tool) => ({ tool: `${name}/${tool}`, arguments: {} })));
  const world = await startFaultWorld({
    // Nobody kills these workers, and the search for secrets may keep one busy for longer than a short heartbeat
    // timeout.
    bundle: await sharedBundle(),
    config: {
      servers: {
        exchanged: { url: servers.exchanged.url, credentials: { kind: 'token-exchange', ...signed(issuer), ...BOUND } },
        managed: {
          url: servers.managed.url,
          credentials: {
            kind: 'enterprise-managed',
            ...signed(issuer),
            // Bearer tokens leak too.
            senderConstrained: 'off',
            identityProvider: { issuer: people.issuer, clientId: 'countersign', clientSecret: '${CLIENT_SECRET}' },
          },
        },
        issued: { url: servers.issued.url, credentials: { kind: 'issued', ...BOUND } },
        refused: { url: servers.exchanged.url, credentials: { kind: 'token-exchange', ...signed(refuser) } },
      },
      issuer: { url: 'https://countersign.example.com', keys: [issuerKey.config] },
      // A server's message ends each call, so that all of it is seen.
      policy: {
        missingAuthorization: 'fail',
        unknownOutcomes: 'record',
        strategy: 'never',
        approvers: { ids: ['bob'] },
      },
      models: {
        main: { provider: 'scripted', script: { steps: [{ calls }, { text: 'Done.' }] } },
      },
      grants: { keys: [{ kid: zone.kid, privateKeyFile: 'zone.pem' }] },
      log: { level: 'trace' },
      tracing: 'console',
    },
    files: { 'zone.pem': zone.pem, 'client.pem': clientKey.pem, 'issuer.pem': issuerKey.pem },
    env: { CLIENT_SECRET: clientSecret },
    client: {
      servers: Object.fromEntries(
        [...EXCHANGED, 'refused' as const].map((name) => [
          name,
          { url: servers[name === 'refused' ? 'exchanged' : name].url, key: zone.publicJwk },
        ]),
      ),
    },
  });
  const worker = await world.startWorker();
  const tokensAt = (name: Name): string[] =>
    servers[name].seen.map(({ headers }) => headers.authorization?.replace(/^(?:Bearer|DPoP) /, '') ?? '');
  /** Proofs of requests whose answers hold them: the list, and calls that bring words. */
  const proofsAt = (name: Name): string[] =>
    servers[name].seen.flatMap(({ rpcMethod, params, headers }) => {
      const isLeaked = rpcMethod === 'tools/list' || TELLING.includes(String(params['name']));
      return isLeaked && typeof headers['dpop'] === 'string' ? [headers['dpop']] : [];
    });
  return {
    world,
    worker,
    servers,
    subject,
    canaries: () => {
      const shown = [issuer, people, refuser].flatMap(({ seen }) =>
        SHOWN.flatMap((field) => ends(seen.flatMap(({ form }) => form.get(field) ?? []))),
      );
      const tokens = EXCHANGED.flatMap((name) => ends(tokensAt(name)));
      const atIssuers = [issuer, people, refuser].flatMap(({ seen }) => ends(seen.flatMap(({ proof }) => proof ?? [])));
      const proofs = [...atIssuers, ...EXCHANGED.flatMap(proofsAt)];
      const values = new Set([subject, clientSecret, ...shown, ...ends(given), ...tokens, ...proofs]);
      return [
        // The part of a token that nobody could guess stands for the whole: wherever the whole stands, that part does,
        // too.
        ...[...values]
          .filter(Boolean)
          .map((value) => ({ name: value.slice(0, 16), value: value.split('.')[2] ?? value })),
        ...[zone, clientKey, issuerKey].flatMap(({ pem }) =>
          privateLines(pem).map((value) => ({ name: 'private key', value })),
        ),
      ];
    },
    pieces: async () => {
      const names = EXCHANGED.map((name) => ({ name }));
      const authorizations = { exchanged: `Bearer ${subject}`, managed: subject };
      const run = await world.start(
        'main',
        { servers: names, limits: { callsPerTurn: 32, resultBytes: 16_384 } },
        { authorizations },
      );
      await run.result();
      const refused = await world.start(
        'main',
        { servers: [{ name: 'refused' }] },
        { authorizations: { refused: subject } },
      );
      return [
        ...(await endedPieces(world, [refused.runId])),
        ...(await piecesOfRun(world, run.runId)),
        ...(await piecesOfRun(world, refused.runId)),
        ...(await storedPieces(world)),
        { store: 'logs', place: 'worker', content: worker.output() },
      ];
    },
    close: async () => {
      await world.stop();
      await Promise.all([...Object.values(servers), issuer, people, refuser].map((part) => part.close()));
    },
  };
}

/** RFC 7638, of the key that a proof names. */
function thumbprintOf(proof: string): string {
  // Sound: the key of an ES256 proof has these members.
  const { jwk } = decodeProtectedHeader(proof) as { jwk: Record<'crv' | 'kty' | 'x' | 'y', string> };
  const { crv, kty, x, y } = jwk;
  return createHash('sha256').update(JSON.stringify({ crv, kty, x, y })).digest('base64url');
}

/** Returns the token for the listing and the one for the last call: what holds for both holds for all between. */
function ends(values: readonly string[]): readonly string[] {
  return [...values.slice(0, 1), ...values.slice(-1)];
}
