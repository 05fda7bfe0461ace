/**
 * Reads from `countersign.yaml` what a gateway or a codec server needs, and starts it.
 *
 * 1. Nothing else in the file is read, so that a gateway needs none of the workers' secrets, and a codec server of all
 *    secrets `encryption.keys` alone (INV-S1).
 */
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { createSigner, privateJwkIn } from '../../client/signing/signing.ts';
import { CountersignError } from '../../contracts/errors.ts';
import type { Config } from '../../contracts/schemas/config.ts';
import { CodecServerConfig, GatewayConfig } from '../../contracts/schemas/gateway.ts';
import type { CodecLog, CodecServer } from '../../gateway/codec/server.ts';
import type { Gateway, GatewayOptions, Speaking } from '../../gateway/gateway.ts';
import type { GatewayLog } from '../../gateway/http/server.ts';
import { createCodec } from '../../workers/codec.ts';
import type { openProvider } from '../../workers/composition.ts';
import type { LivePolicy } from '../../workers/config/live-policy.ts';
import { packageVersion } from '../../workers/setup.ts';
import type { GlobalOptions } from './options.ts';
import { artifactReader, isSigned, type Place, readParts, refuseProblems, type Session } from './session.ts';
import type { Terminal } from './terminal.ts';
import { safeJson } from './verb.ts';

export interface GatewaySettings extends Pick<GatewayOptions, 'config' | 'trust' | 'ask' | 'askSlack' | 'idCase'> {
  readonly administrators: Config['catalog']['administrators'];
  close(): Promise<void>;
}

/** The one thing of a policy that servers of people need: how they are told apart. */
const POLICY = { idCase: true } as const;
const FOR_GATEWAY = { gateway: true, egress: true, catalog: true, policy: POLICY } as const;

export async function loadGatewaySettings(terminal: Place, { config: path }: GlobalOptions): Promise<GatewaySettings> {
  const { config, value, what, baseDirectory } = await readParts(terminal, path, FOR_GATEWAY);
  return await gatewayParts(config, isSigned(value, terminal.env, what) ? 'signed' : 'temporal', baseDirectory);
}

export async function gatewayParts(
  config: Config,
  mode: 'temporal' | 'signed',
  baseDirectory: string,
): Promise<GatewaySettings> {
  const gateway = config.gateway ?? GatewayConfig.parse({});
  const { keyFile } = gateway.signing ?? {};
  // It brings the parts of workers, which no other command of clients loads.
  const { openProvider: open, openSlack } = await import('../../workers/composition.ts');
  const outlet = open(config);
  const slack = openSlack(config);
  return {
    config: gateway,
    idCase: config.policy.idCase,
    administrators: config.catalog.administrators,
    trust:
      mode === 'temporal'
        ? { mode }
        : { mode, speaking: keyFile === undefined ? undefined : await readSpeaking(baseDirectory, keyFile) },
    ask: asking(outlet),
    ...(slack && { askSlack: async (url: string, init?: RequestInit) => await slack.fetch(url, init) }),
    close: async () => void (await Promise.all([outlet?.close(), slack?.close()])),
  };
}

/** Asks the identity provider, and nobody else. */
function asking(outlet: ReturnType<typeof openProvider>): GatewayOptions['ask'] {
  return async (url, init) => {
    if (outlet === undefined) throw new CountersignError('INTERNAL', 'There is no identity provider to ask.');
    return await outlet.fetch(url, init);
  };
}

/** Reads a private JWK as `countersign keys new --service` writes it. @throws CountersignError `CONFIG_INVALID` */
async function readSpeaking(baseDirectory: string, keyFile: string): Promise<Speaking> {
  const text = await readFile(resolve(baseDirectory, keyFile), 'utf8').catch(() => '');
  const { kid, countersign, ...key } = privateJwkIn(text) ?? {};
  const path = 'gateway.signing.keyFile';
  if (kid === undefined || countersign === undefined) {
    const message = `${path} names no private JWK that says for whom it speaks. Make one with: countersign keys new KID --service ISSUER`;
    throw new CountersignError('CONFIG_INVALID', message, { path });
  }
  if (countersign.kind !== 'service')
    throw new CountersignError('CONFIG_INVALID', `${path} names the key of one person; the gateway speaks for many.`, {
      path,
    });
  return { signer: createSigner(kid, key), voice: countersign };
}

export async function startOn(
  { client, settings }: Pick<Session, 'client' | 'settings'>,
  { config, trust, ask, askSlack, idCase, administrators }: GatewaySettings,
  log: GatewayLog,
  env: Terminal['env'],
): Promise<Gateway> {
  // Its HTTP server takes half a second to load, so other commands do without it.
  const { startGateway } = await import('../../gateway/gateway.ts');
  const live = await livePolicy(settings, log, env);
  const { taskQueue, artifacts, trusted, serverUrls, repeatable } = settings;
  const judging = {
    get policy() {
      return live?.current ?? settings.policy;
    },
    trusted,
    administrators,
    serverUrls,
    repeatable,
    isSigned: trust.mode === 'signed',
  };
  const gateway = await startGateway({
    config,
    trust,
    ask,
    askSlack,
    idCase,
    catalogs: judging,
    explain: explainBy(judging),
    client,
    taskQueue,
    artifacts: artifactReader(artifacts),
    version: packageVersion(),
    log,
  });
  return {
    ...gateway,
    stop: async () => {
      live?.stop();
      await gateway.stop();
    },
  };
}

/** Follows the policy of the file, as workers do; without a file there is nothing to follow. */
export async function livePolicy(
  { path, policy, serverUrls, channels }: Session['settings'],
  log: Pick<GatewayLog, 'warn'>,
  env: Terminal['env'],
): Promise<LivePolicy | undefined> {
  if (path === undefined) return undefined;
  const { followPolicyFile } = await import('../../workers/config/live-policy.ts');
  const config = {
    policy,
    servers: serverUrls,
    notify: { channels: Object.fromEntries(channels.map((name) => [name, true])) },
  };
  const say = (message: string): void => log.warn(message, {});
  return followPolicyFile({ config, path }, env, { error: say, warn: say });
}

export function linesTo(terminal: Pick<Terminal, 'err'>): CodecLog {
  const line =
    (level: string): GatewayLog['warn'] =>
    (message, fields) =>
      terminal.err(`${safeJson({ level, time: new Date().toISOString(), message, ...fields })}\n`);
  return { info: line('info'), warn: line('warn') };
}

/** Judges calls by the policy of the moment, as `policy explain` does. */
export function explainBy(judging: Pick<Session['settings'], 'policy' | 'trusted'>): GatewayOptions['explain'] {
  return async (asked) => {
    // Conditions take parts of workers, which a gateway that is not asked does without.
    const [{ verdictOn }, { OfflineJudge }] = await Promise.all([
      import('./policy-cases.ts'),
      import('../../workers/config/offline-judge.ts'),
    ]);
    const judge = new OfflineJudge();
    if (asked.run !== undefined)
      refuseProblems(await judge.problems(asked.run, ['run']), 'SPEC_INVALID', "run's policy");
    return await verdictOn(judging, asked, judge);
  };
}

export type CodecSettings = Config & { readonly codecServer: CodecServerConfig };

/** The rest of `gateway` may hold a secret of its own. */
const FOR_CODEC = {
  codecServer: true,
  encryption: true,
  egress: true,
  policy: POLICY,
  gateway: { oidc: true },
} as const;

/** @throws CountersignError `CONFIG_INVALID` */
export async function loadCodecSettings(
  terminal: Place,
  { config: path }: Pick<GlobalOptions, 'config'>,
): Promise<CodecSettings> {
  const { config, what } = await readParts(terminal, path, FOR_CODEC);
  if (config.encryption.keys.length === 0) {
    const message = `The ${what} has no encryption.keys, so runs are not encrypted and there is nothing to decode.`;
    throw new CountersignError('CONFIG_INVALID', message, { path: 'encryption.keys' });
  }
  const own = config.codecServer ?? CodecServerConfig.parse({});
  return { ...config, codecServer: { ...own, oidc: own.oidc ?? config.gateway?.oidc } };
}

export async function startCodec(settings: CodecSettings, namespace: string, log: CodecLog): Promise<CodecServer> {
  // Both take time to load, so other commands do without them.
  const { openProvider: open } = await import('../../workers/composition.ts');
  const { startCodecServer } = await import('../../gateway/codec/server.ts');
  const outlet = open(settings, 'codecServer');
  const close = async (): Promise<void> => await outlet?.close();
  try {
    const server = await startCodecServer({
      config: settings.codecServer,
      namespace,
      codec: createCodec(settings),
      idCase: settings.policy.idCase,
      ask: asking(outlet),
      log,
    });
    return { ...server, stop: async () => void (await Promise.all([server.stop(), close()])) };
  } catch (error) {
    await close();
    throw error;
  }
}
