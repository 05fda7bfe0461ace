/**
 * The catalog of one server for one tenant, as a backend holds it.
 *
 * 1. A message is sent as an update whose id is of its own id and content: sent twice, it counts once, and another message under the
 *    same id is refused (INV-D3).
 * 2. In trust mode `signed` it is signed for the Temporal run that lives, which is therefore begun first.
 * 3. Nothing is sent that the catalog would not take for its shape, a secret in an address before all (INV-S1).
 */
import type { WorkflowHandle } from '@temporalio/client';
import { z } from 'zod';
import type { CatalogIdentity } from '../contracts/catalog-activities.ts';
import { CountersignError } from '../contracts/errors.ts';
import { CATALOG_UPDATES, QUERIES } from '../contracts/names.ts';
import {
  type CatalogAck,
  CatalogConnect,
  type CatalogConnectInput,
  CatalogDecision,
  type CatalogDecisionInput,
  CatalogDisconnect,
  type CatalogDisconnectInput,
  CatalogRefresh,
  type CatalogRefreshInput,
  type CatalogSnapshot,
  type CatalogUnchanged,
  type RefreshReport,
  SetToolPolicies,
  type SetToolPoliciesInput,
} from '../contracts/schemas/catalog.ts';
import { Identifier, Name } from '../contracts/schemas/json.ts';
import type { LedgerEntry } from '../contracts/schemas/ledger.ts';
import { parseAs } from '../contracts/schemas/parse.ts';
import { parseConnect } from '../domain/messages.ts';
import { catalogId } from '../domain/catalog.ts';
import { canonicalServerUrl } from '../domain/server-url.ts';
import { type KnownDefinitions, readDefinitions } from './catalog-definitions.ts';
import { catalogMessage, type Message } from './catalog-message.ts';
import { refreshEnd } from './catalog-refresh.ts';
import { type ChangeMessage, type ChangeName, CatalogSigning } from './catalog-signing.ts';
import { assertNoneWasEnded, catalogStart, type ToolCatalog } from './catalog-start.ts';
import type { Engine } from './engine.ts';
import { type ArtifactReader, readLedger } from './ledger.ts';
import type { Signer } from './signer.ts';
import { namingOf } from './subject.ts';
import { sendUpdate, updateIdOf } from './update.ts';

const Identity = z.strictObject({ tenant: Identifier, server: Name });

export interface CatalogHandleOptions {
  readonly artifacts: ArtifactReader | undefined;
  /** On which the workflow of a catalog runs. */
  readonly taskQueue: string;
  /** For catalogs in trust mode `signed`. */
  readonly signer?: Signer | undefined;
}

export class CatalogHandle {
  readonly tenant: string;
  readonly server: string;
  readonly workflowId: string;
  readonly #engine: Engine;
  readonly #options: CatalogHandleOptions;
  readonly #signing: CatalogSigning;

  /** @throws CountersignError `CATALOG_INVALID` */
  constructor(engine: Engine, identity: CatalogIdentity, options: CatalogHandleOptions) {
    const { tenant, server } = parseAs(Identity, identity, 'CATALOG_INVALID', 'name of the catalog');
    this.tenant = tenant;
    this.server = server;
    this.workflowId = catalogId({ tenant, server });
    this.#engine = engine;
    this.#options = options;
    const read = async (): Promise<CatalogSnapshot | CatalogUnchanged> => await this.#query();
    this.#signing = new CatalogSigning(engine, this, options, read);
  }

  /** The whole catalog now. @throws CountersignError `CATALOG_NOT_FOUND` where nobody has connected the server */
  async snapshot(): Promise<CatalogSnapshot> {
    const snapshot = await this.#query();
    if ('unchanged' in snapshot || snapshot.status === 'new') throw this.#notThere();
    return snapshot;
  }

  /**
   * Connects the server, or changes how it is connected; then its tools are listed (`refresh` of the answer, see `settled`).
   * @throws CountersignError `CATALOG_INVALID`, `CATALOG_FORBIDDEN`, `CATALOG_VERSION_CONFLICT`, `CATALOG_SETTING_UNSUPPORTED`,
   *   `CATALOG_UNAVAILABLE`, `RESULT_UNCERTAIN`
   * @param options `anew`: also where the last catalog of this name was ended from outside, without what was set there
   */
  async connect(
    input: Message<CatalogConnectInput>,
    { anew = false }: { readonly anew?: boolean } = {},
  ): Promise<CatalogAck> {
    const connect = catalogMessage(
      CatalogConnect,
      { ...input, url: canonicalServerUrl(String(input.url)) },
      'connection',
    );
    const checked = parseConnect(connect);
    if (checked.kind === 'bad') {
      const { path, reason } = checked;
      throw new CountersignError('CATALOG_INVALID', `The connection is not valid: ${path} ${reason}.`, { path });
    }
    const { client } = this.#engine;
    if (!anew) await this.#engine.call(this, async () => await assertNoneWasEnded(client, this));
    // What is signed is signed for one Temporal run: it must be there.
    await this.#signing.begin();
    return await this.#signing.signed('connect', connect, async (message) =>
      this.#sent('connect', connect, async (id) =>
        client.workflow.executeUpdateWithStart<ToolCatalog, CatalogAck, [CatalogConnect]>(
          CATALOG_UPDATES.connect,
          // An operation starts once; each attempt has its own.
          {
            args: [message],
            startWorkflowOperation: catalogStart(this, this.#options.taskQueue, this.#options.signer !== undefined),
            ...id,
          },
        ),
      ),
    );
  }

  /** Asks the catalog to read its trusted keys anew; it does so at most every half minute. @throws CountersignError `TRUST_REFRESH_TOO_SOON` */
  async refreshTrust(): Promise<void> {
    await this.#signing.refreshTrust();
  }

  /** Asks for the tools of the server as they are now. */
  async refresh(input: Message<CatalogRefreshInput>): Promise<CatalogAck> {
    return await this.#update('refresh', catalogMessage(CatalogRefresh, input, 'refresh'));
  }

  /**
   * Waits for the end of a refresh; a later one counts as well.
   * @returns the report of the newest; `ok: false` says with code and message why nothing has changed
   * @throws CountersignError `RESULT_UNCERTAIN` where it goes on
   */
  async settled(
    refresh: number,
    { deadlineMs = 60_000 }: { readonly deadlineMs?: number } = {},
  ): Promise<RefreshReport> {
    return await refreshEnd(this, async (known) => await this.#query(known), refresh, deadlineMs);
  }

  /** Sets what operators own of tools: all of the list, or nothing. An answer `waiting` names the change for a second administrator. */
  async setToolPolicies(input: Message<SetToolPoliciesInput>): Promise<CatalogAck> {
    return await this.#update('setToolPolicies', catalogMessage(SetToolPolicies, input, 'change'));
  }

  /** From now on no tool of the server is offered; what was set of its tools stays. */
  async disconnect(input: Message<CatalogDisconnectInput>): Promise<CatalogAck> {
    return await this.#update('disconnect', catalogMessage(CatalogDisconnect, input, 'message'));
  }

  /** A second administrator's word on a change that waits. */
  async decide(input: Message<CatalogDecisionInput>): Promise<CatalogAck> {
    return await this.#update('decide', catalogMessage(CatalogDecision, input, 'decision'));
  }

  /** The whole ledger, oldest first. */
  async ledger(): Promise<readonly LedgerEntry[]> {
    const source = { workflowId: this.workflowId, artifacts: this.#options.artifacts };
    return await this.#engine.read(this, () => readLedger(this.#engine.client, source));
  }

  /**
   * What stands behind the hashes of a snapshot, by tool.
   * @throws CountersignError `ARTIFACT_MISSING` where this client has no access to the artifact store
   */
  async definitions(
    snapshot: Pick<CatalogSnapshot, 'entries' | 'listings'>,
  ): Promise<ReadonlyMap<string, KnownDefinitions>> {
    return await readDefinitions(this.#options.artifacts, snapshot);
  }

  get #handle(): WorkflowHandle {
    return this.#engine.client.workflow.getHandle(this.workflowId);
  }

  async #query(known?: string): Promise<CatalogSnapshot | CatalogUnchanged> {
    return await this.#engine.read(this, () =>
      known === undefined
        ? this.#handle.query<CatalogSnapshot, []>(QUERIES.snapshot)
        : this.#handle.query<CatalogSnapshot | CatalogUnchanged, [string]>(QUERIES.snapshot, known),
    );
  }

  async #update<T extends ChangeMessage>(name: ChangeName, message: T): Promise<CatalogAck> {
    return await this.#signing.signed(name, message, async (sent) =>
      this.#sent(name, message, async (id) =>
        this.#handle.executeUpdate<CatalogAck, [T]>(CATALOG_UPDATES[name], { args: [sent], ...id }),
      ),
    );
  }

  async #sent(
    name: ChangeName,
    message: ChangeMessage,
    send: (id: object) => Promise<CatalogAck>,
  ): Promise<CatalogAck> {
    const { requestId } = message;
    // A message may be large: what its answer repeats is enough.
    return await sendUpdate(this.#engine, this, updateIdOf(CATALOG_UPDATES[name], message, requestId), send, {
      requestId,
    });
  }

  #notThere(): CountersignError {
    const { missing, notThere, facts } = namingOf(this);
    return new CountersignError(missing, notThere, facts);
  }
}
