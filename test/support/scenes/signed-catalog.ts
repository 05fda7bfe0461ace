/** Starts a catalog in trust mode `signed`, and sends messages to it through Temporal's own client. */
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { expect } from '@jest/globals';
import { type CatalogHandle, Countersign } from '../../../client/index.ts';
import { codedFailureIn } from '../../../contracts/failure.ts';
import type { TestEngine } from '../engine.ts';
import { type RecordingServer, startRecordingServer } from '../servers/recording-server.ts';
import {
  claimsFor,
  person,
  service,
  signedWith,
  type TestClaims,
  type TestKey,
  writeTrust,
} from '../signing/people.ts';
import { executions } from '../world/run-record.ts';
import { startWorld, type World } from '../world/world.ts';

/** One service key, and the keys of people; `theirs` belongs to another tenant. */
export const backend = service('backend', ['admins']);
export const ann = person('ann', 'ann');
export const ben = person('ben', 'ben');
export const mallory = person('mallory', 'mallory', ['crew']);
export const theirs = person('theirs', 'ann', [], { tenants: ['theirs'] });

interface Sender {
  readonly id: string;
  readonly groups: string[];
}
export const ANN: Sender = { id: 'acme|ann', groups: [] };
export const BEN: Sender = { id: 'acme|ben', groups: [] };

interface Message {
  readonly requestId: string;
  readonly by: Sender;
}

export class SignedCatalog {
  readonly bank: RecordingServer;
  readonly world: World;
  readonly handle: CatalogHandle;
  /** The Temporal run for which messages are signed. */
  runId = '';

  constructor(bank: RecordingServer, world: World) {
    this.bank = bank;
    this.world = world;
    this.handle = this.through(ann);
  }

  get engine(): TestEngine {
    return this.world.engine;
  }

  through(key: TestKey, server = 'bank'): CatalogHandle {
    const { client, artifacts, config } = this.world;
    return new Countersign({ client, artifacts, taskQueue: config.taskQueue, signer: key.signer }).catalog(server);
  }

  async version(): Promise<number> {
    return (await this.handle.snapshot()).policyVersion;
  }

  async trust(...keys: readonly TestKey[]): Promise<void> {
    await writeTrust(join(this.world.engine.directory, 'trust.jwks'), ...keys);
  }

  /** Number of events in all executions. */
  async length(workflowId = this.handle.workflowId): Promise<number> {
    return (await executions(this.world, workflowId)).reduce((sum, { events }) => sum + events.length, 0);
  }

  /** Returns the code of a refusal that left no trace in history. */
  async refused(update: string, message: object, workflowId = this.handle.workflowId): Promise<string> {
    const before = await this.length(workflowId);
    const code = await this.sent(update, message, workflowId);
    expect(await this.length(workflowId)).toBe(before);
    return code;
  }

  async sent(update: string, message: object, workflowId = this.handle.workflowId): Promise<string> {
    const handle = this.world.client.workflow.getHandle(workflowId);
    try {
      await handle.executeUpdate<unknown, [object]>(update, { args: [message] });
      return 'accepted';
    } catch (error) {
      return codedFailureIn(error)?.code ?? 'no code';
    }
  }

  /** Signs a message as an honest signer would; a test's forgery overrides the claims. */
  async signedBy<T extends Message>(
    key: TestKey,
    message: T,
    over: TestClaims = {},
  ): Promise<T & { signature: string }> {
    const [iss, sub] = message.by.id.split('|');
    const { namespace } = this.world.client.options;
    const { workflowId } = this.handle;
    const purpose = 'catalog.setToolPolicies';
    const about = { purpose, namespace, tenant: 'default', workflowId, runId: this.runId, iss, sub };
    const claims = claimsFor(message, { ...about, groups: message.by.groups }, { jti: message.requestId, ...over });
    return { ...message, signature: await signedWith(key, claims) };
  }

  async stop(): Promise<void> {
    await this.world.stop();
  }
}

/** Makes a change that only tightens. */
export function tighten(expectedVersion: number, over: object = {}) {
  return { requestId: randomUUID(), by: ANN, expectedVersion, changes: [{ tool: 'pay', denied: true }], ...over };
}

/**
 * Starts a catalog connected by ann, in which a loosening needs both administrators.
 * @param taskQueue queue of its server's tools; default: that of catalogs
 */
export async function startSignedCatalog(taskQueue?: string): Promise<SignedCatalog> {
  const bank = await startRecordingServer();
  const world = await startWorld({
    trusted: [backend, ann, ben, mallory, theirs],
    beside: [bank],
    config: {
      catalog: {
        administrators: [{ ids: ['acme|ann', 'acme|ben'], groups: ['admins'], may: ['connect', 'loosen', 'tighten'] }],
        origins: [new URL(bank.url).origin],
        loosening: 'countersign',
      },
      ...(taskQueue === undefined
        ? {}
        : { servers: { bank: { url: bank.url, credentials: { kind: 'none' as const }, taskQueue } } }),
    },
  });
  const catalog = new SignedCatalog(bank, world);
  const { refresh = 0 } = await catalog.handle.connect({ by: ANN, url: bank.url });
  await catalog.handle.settled(refresh);
  catalog.runId = (await catalog.handle.snapshot()).signing?.runId ?? '';
  return catalog;
}
