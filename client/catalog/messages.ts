/**
 * Checks messages to a catalog and, in trust mode `signed`, signs them for the Temporal run that lives.
 *
 * 1. A catalog that existed before the mode was switched on accepts nothing until it knows the keys. The client
 *    therefore asks it to read them first.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import type { z } from 'zod';
import { CountersignError } from '../../contracts/errors.ts';
import { CATALOG_UPDATES } from '../../contracts/names.ts';
import type { Approver } from '../../contracts/schemas/answer.ts';
import type { CatalogAck, CatalogSnapshot, CatalogUnchanged } from '../../contracts/schemas/catalog.ts';
import { parseAs } from '../../contracts/schemas/parse.ts';
import type { CatalogIdentity } from '../../contracts/wire/catalog.ts';
import { byteLength } from '../../domain/text/canonical.ts';
import type { Engine } from '../engine/engine.ts';
import { sendUpdate } from '../engine/update.ts';
import { sendSigned, type SignedRun } from '../signing/signed-update.ts';
import type { Signer } from '../signing/signing.ts';
import { catalogStart, type ToolCatalog } from './start.ts';

export type ChangeName = 'connect' | 'refresh' | 'setToolPolicies' | 'disconnect' | 'decide';

export interface ChangeMessage {
  readonly requestId: string;
  readonly by: Approver;
}

type SignedState = Awaited<ReturnType<SignedRun['state']>>;

/** Pauses while another request's reading of the keys, which is one activity, goes on. */
const KEY_PAUSES_MS = [50, 100, 200, 400, 800];

export class CatalogSigning {
  readonly #engine: Engine;
  readonly #catalog: CatalogIdentity & { readonly workflowId: string };
  readonly #options: { readonly taskQueue: string; readonly signer?: Signer | undefined };
  readonly #read: () => Promise<CatalogSnapshot | CatalogUnchanged>;

  constructor(
    engine: Engine,
    catalog: CatalogIdentity & { readonly workflowId: string },
    options: { readonly taskQueue: string; readonly signer?: Signer | undefined },
    read: () => Promise<CatalogSnapshot | CatalogUnchanged>,
  ) {
    this.#engine = engine;
    this.#catalog = catalog;
    this.#options = options;
    this.#read = read;
  }

  /** Sends the message, signed if this client has a key and the catalog wants signatures. */
  async signed<T extends ChangeMessage>(
    name: ChangeName,
    message: T,
    send: (message: T) => Promise<CatalogAck>,
  ): Promise<CatalogAck> {
    const { signer } = this.#options;
    if (signer === undefined) return await send(message);
    const { signing } = await this.#state();
    if (signing === undefined && name !== 'connect') await this.#readingKeys(async () => this.refreshTrust());
    const { namespace } = this.#engine;
    const { requestId, by } = message;
    const catalog = {
      namespace,
      workflowId: this.#catalog.workflowId,
      state: async () => await this.#state(),
      refreshTrust: async () => await this.refreshTrust(),
    };
    const said = { purpose: `catalog.${name}`, jti: requestId, person: by.id, groups: by.groups } as const;
    return await sendSigned(catalog, signer, message, said, send);
  }

  /** Starts the catalog if it does not exist, and lets it read its keys. A client without a signer does nothing. */
  async begin(): Promise<void> {
    const { signer, taskQueue } = this.#options;
    if (signer === undefined) return;
    await this.#readingKeys(async () =>
      sendUpdate(this.#engine, this.#catalog, undefined, async (id) =>
        this.#engine.client.workflow.executeUpdateWithStart<ToolCatalog, void, []>(CATALOG_UPDATES.refreshTrust, {
          startWorkflowOperation: catalogStart(this.#catalog, taskQueue, true),
          ...id,
        }),
      ),
    );
  }

  /** @throws CountersignError `TRUST_REFRESH_TOO_SOON` */
  async refreshTrust(): Promise<void> {
    const handle = this.#engine.client.workflow.getHandle(this.#catalog.workflowId);
    await sendUpdate(this.#engine, this.#catalog, undefined, async (id) =>
      handle.executeUpdate<void, []>(CATALOG_UPDATES.refreshTrust, id),
    );
  }

  async #state(): Promise<SignedState> {
    const snapshot = await this.#read();
    const signing = 'unchanged' in snapshot ? undefined : snapshot.signing;
    return signing === undefined ? { runId: '' } : { runId: signing.runId, signing: { tenant: this.#catalog.tenant } };
  }

  /**
   * Asks again while an earlier key reading may still go on. A catalog in trust mode `temporal` has no keys, however
   * long the client waits.
   */
  async #readingKeys(ask: () => Promise<void>): Promise<void> {
    try {
      await ask();
    } catch (error) {
      if (!(error instanceof CountersignError) || error.code !== 'TRUST_REFRESH_TOO_SOON') throw error;
      for (const ms of KEY_PAUSES_MS) {
        if ((await this.#state()).signing !== undefined) return;
        await pause(ms);
      }
    }
  }
}

// Messages are checked for shape and size before they leave.

/** The input of a message; a message without an id gets a random one. */
export type Message<T extends { readonly requestId: string }> = Omit<T, 'requestId'> & { readonly requestId?: string };

/** Half of what one payload may hold (Temporal server `limit.blobSize.error`). */
const MESSAGE_BYTES = 1_048_576;

/** @throws CountersignError `CATALOG_INVALID`, `LIMIT_REACHED` */
export function catalogMessage<T>(schema: z.ZodType<T>, input: object, what: string): T {
  const message = parseAs(schema, { requestId: randomUUID(), ...input }, 'CATALOG_INVALID', what);
  const bytes = byteLength(JSON.stringify(message));
  if (bytes <= MESSAGE_BYTES) return message;
  throw new CountersignError(
    'LIMIT_REACHED',
    `The ${what} has ${bytes} bytes; ${MESSAGE_BYTES} are allowed. Send fewer tools at once; nothing was changed.`,
    { limit: 'message' },
  );
}
