/**
 * CatalogHandle reads and changes the catalog of one server for one tenant.
 *
 * 1. Every message is an update whose id is made of the message's own id and content: sent twice, it counts once;
 *    another message under the same id is refused (INV-D3).
 * 2. In trust mode `signed` a message is signed for one Temporal run, which is therefore started before. One that
 *    existed before the mode accepts nothing until it knows the keys: it is asked to read them first.
 * 3. Every message is checked before it is sent; above all, no address with a secret in it leaves the process (INV-S1).
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { type WorkflowHandle, WithStartWorkflowOperation } from '@temporalio/client';
import { TypedSearchAttributes } from '@temporalio/common';
import { z } from 'zod';
import { CountersignError } from '../../contracts/errors.ts';
import { CATALOG_UPDATES, CATALOG_WORKFLOW, QUERIES, SEARCH_ATTRIBUTES } from '../../contracts/names.ts';
import {
  type CatalogAck,
  CatalogConnect,
  type CatalogConnectInput,
  CatalogDecision,
  type CatalogDecisionInput,
  CatalogDisconnect,
  type CatalogDisconnectInput,
  CatalogEntry,
  CatalogRefresh,
  type CatalogRefreshInput,
  CatalogSnapshot,
  CatalogUnchanged,
  type RefreshReport,
  SetToolPolicies,
  type SetToolPoliciesInput,
} from '../../contracts/schemas/catalog.ts';
import { Identifier, Name } from '../../contracts/schemas/json.ts';
import type { LedgerEntry } from '../../contracts/schemas/ledger.ts';
import { parseAs } from '../../contracts/schemas/parse.ts';
import type { CatalogBeginning, CatalogIdentity } from '../../contracts/wire/catalog.ts';
import { catalogId } from '../../domain/catalog/state.ts';
import { isFields, parseConnect } from '../../domain/shapes/inputs.ts';
import { shellWord } from '../../domain/text/shell-word.ts';
import { canonicalServerUrl } from '../../domain/text/urls.ts';
import { hasForm } from '../engine/answers.ts';
import { askWorkflow, assertFields, assertMessageFits, type Engine, patienceOf, updateIdOf } from '../engine/engine.ts';
import { ifThere } from '../engine/executions.ts';
import { namingOf } from '../engine/trouble.ts';
import { type ArtifactReader, readEntries } from '../ledger/ledger.ts';
import { sendSigned, type SignedRun, type Signer } from '../signing/signing.ts';
import { type KnownDefinitions, readDefinitions } from './list.ts';

/** Pauses while another request's reading of the keys, which is one activity, goes on. */
const KEY_PAUSES_MS = [50, 100, 200, 400, 800];

const Identity = z.strictObject({ tenant: Identifier, server: Name });

interface CatalogHandleOptions {
  readonly artifacts?: ArtifactReader | undefined;
  readonly taskQueue: string;
  readonly signer?: Signer | undefined;
}

export class CatalogHandle {
  readonly tenant: string;
  readonly server: string;
  readonly workflowId: string;
  readonly #engine: Engine;
  readonly #options: CatalogHandleOptions;

  /** @throws CountersignError `CATALOG_INVALID` */
  constructor(engine: Engine, identity: CatalogIdentity, options: CatalogHandleOptions) {
    const { tenant, server } = parseAs(Identity, identity, 'CATALOG_INVALID', 'name of the catalog');
    this.tenant = tenant;
    this.server = server;
    this.workflowId = catalogId({ tenant, server });
    this.#engine = engine;
    this.#options = options;
  }

  /**
   * Returns the whole catalog as it is now.
   * @throws CountersignError `CATALOG_NOT_FOUND` if nobody has connected the server
   */
  async snapshot(): Promise<CatalogSnapshot> {
    const snapshot = await this.#query();
    if (!('unchanged' in snapshot) && snapshot.status !== 'new') return snapshot;
    const { missing, notThere, facts } = namingOf(this);
    throw new CountersignError(missing, notThere, facts);
  }

  /**
   * Connects the server, or changes how it is connected; then its tools are listed. `refresh` of the answer is for
   * `settled`.
   * @throws CountersignError `CATALOG_INVALID`, `CATALOG_FORBIDDEN`, `CATALOG_VERSION_CONFLICT`,
   *   `CATALOG_SETTING_UNSUPPORTED`, `CATALOG_UNAVAILABLE`, `RESULT_UNCERTAIN`
   * @param options `anew` connects even if the last catalog of this name was ended from outside; its settings are lost
   */
  async connect(
    input: Message<CatalogConnectInput>,
    { anew = false }: { readonly anew?: boolean } = {},
  ): Promise<CatalogAck> {
    const connect = catalogMessage(
      CatalogConnect,
      // A caller without types may give nothing.
      isFields(input) ? { ...input, url: canonicalServerUrl(String(input.url)) } : {},
      'connection',
    );
    const checked = parseConnect(connect);
    if (checked.kind === 'bad') {
      const { path, reason } = checked;
      throw new CountersignError('CATALOG_INVALID', `The connection is not valid: ${path} ${reason}.`, { path });
    }
    const { client } = this.#engine;
    if (!anew) await this.#assertNotEnded();
    try {
      // A signature names one Temporal run, so that run must exist before anything is signed.
      if (this.#options.signer !== undefined) await this.#begin();
      return await this.#sent('connect', connect, async (message, id) =>
        client.workflow.executeUpdateWithStart<ToolCatalog, CatalogAck, [CatalogConnect]>(CATALOG_UPDATES.connect, {
          args: [message],
          startWorkflowOperation: catalogStart(this, this.#options.taskQueue, this.#options.signer !== undefined),
          ...id,
        }),
      );
    } catch (error) {
      if (!(error instanceof CountersignError) || error.code !== 'CATALOG_NOT_FOUND') throw error;
      // A catalog that could not read what it was started with has ended at once: it says why, and not its update.
      const why: unknown = await this.#engine
        .read(this, () => this.#handle.result(), WHY_MS)
        .catch((end: unknown) => end);
      throw why instanceof CountersignError && why.code === 'CATALOG_INVALID' ? why : error;
    }
  }

  /**
   * Asks the catalog to read its trusted keys anew; the catalog does so at most every half minute.
   * @throws CountersignError `TRUST_REFRESH_TOO_SOON`
   */
  async refreshTrust(): Promise<void> {
    await this.#engine.update(this, undefined, async (id) =>
      this.#handle.executeUpdate<void, []>(CATALOG_UPDATES.refreshTrust, id),
    );
  }

  async refresh(input: Message<CatalogRefreshInput>): Promise<CatalogAck> {
    return await this.#update('refresh', catalogMessage(CatalogRefresh, input, 'refresh'));
  }

  /**
   * Waits for the end of this refresh, or of a later one.
   * @returns the report of the newest refresh; with `ok: false` its code and message say why nothing has changed
   * @throws CountersignError `RESULT_UNCERTAIN` if the refresh still goes on at the deadline
   */
  async settled(refresh: number, options: { readonly deadlineMs?: number } = {}): Promise<RefreshReport> {
    assertFields(options, 'settled', 'its options as { deadlineMs }, or leave them out');
    const { deadlineMs = 60_000 } = options;
    return await refreshEnd(this, async (known) => await this.#query(known), refresh, deadlineMs);
  }

  /** Takes the whole list, or nothing. An answer `waiting` names the change that a second administrator must decide. */
  async setToolPolicies(input: Message<SetToolPoliciesInput>): Promise<CatalogAck> {
    return await this.#update('setToolPolicies', catalogMessage(SetToolPolicies, input, 'change'));
  }

  /** Disconnects the server: no tool of it is offered from now on. The settings of its tools stay. */
  async disconnect(input: Message<CatalogDisconnectInput>): Promise<CatalogAck> {
    return await this.#update('disconnect', catalogMessage(CatalogDisconnect, input, 'message'));
  }

  /** Sends a second administrator's decision on a change that waits. */
  async decide(input: Message<CatalogDecisionInput>): Promise<CatalogAck> {
    return await this.#update('decide', catalogMessage(CatalogDecision, input, 'decision'));
  }

  /** Reads the whole ledger, oldest entry first. */
  async ledger(): Promise<readonly LedgerEntry[]> {
    return await this.ledgerEntries({ from: 0, most: Number.POSITIVE_INFINITY });
  }

  /** Reads at most `most` entries of the ledger, from number `from` on; fewer at its end. */
  async ledgerEntries(page: { readonly from: number; readonly most: number }): Promise<readonly LedgerEntry[]> {
    assertFields(page, 'ledgerEntries', '{ from, most }');
    const source = { workflowId: this.workflowId, artifacts: this.#options.artifacts };
    return await this.#engine.read(this, () => readEntries(this.#engine.client, source, page));
  }

  /**
   * Reads the tool definitions whose hashes a snapshot names, by tool.
   * @throws CountersignError `ARTIFACT_MISSING` if this client has no access to the artifact store; `USAGE`
   */
  async definitions(
    snapshot: Pick<CatalogSnapshot, 'entries' | 'listings'>,
  ): Promise<ReadonlyMap<string, KnownDefinitions>> {
    // A caller without types may give the promise of a snapshot.
    if (!isFields(snapshot) || !Array.isArray(snapshot.entries) || !isFields(snapshot.listings)) {
      const message = 'snapshot is no snapshot of a catalog. Give what `await catalog.snapshot()` returns.';
      throw new CountersignError('USAGE', message, { path: 'snapshot' });
    }
    return await readDefinitions(this.#options.artifacts, snapshot);
  }

  /** Returns how the catalog was ended from outside, such as `terminated`; undefined if it was not. */
  async ended(): Promise<string | undefined> {
    const last = await this.#engine.read(this, () => ifThere(async () => await this.#handle.describe()));
    if (last?.closeTime === undefined) return undefined;
    const status = last.typedSearchAttributes.get(SEARCH_ATTRIBUTES.status);
    // One that was never connected ends by itself.
    return status === 'connected' || status === 'disconnected'
      ? last.status.name.toLowerCase().replaceAll('_', ' ')
      : undefined;
  }

  /**
   * A catalog that was terminated from outside has lost all settings of its tools: a new one does not begin unseen.
   * @throws CountersignError `CATALOG_VERSION_CONFLICT`
   */
  async #assertNotEnded(): Promise<void> {
    const ended = await this.ended();
    if (ended === undefined) return;
    const { tenant, server } = this;
    const message = `The catalog of ${server} was ended from outside (${ended}), and takes no change any more: ${howToBeginAnew(this)}`;
    throw new CountersignError('CATALOG_VERSION_CONFLICT', message, { tenant, server });
  }

  /** Returns a mark that every change of the catalog changes; does not wake it. @throws `CATALOG_NOT_FOUND` */
  async mark(): Promise<string> {
    const { runId, historyLength } = await this.#engine.read(this, async () => await this.#handle.describe());
    return `${runId}/${historyLength}`;
  }

  get #handle(): WorkflowHandle {
    return this.#engine.client.workflow.getHandle(this.workflowId);
  }

  async #query(known?: string): Promise<CatalogSnapshot | CatalogUnchanged> {
    const answer = await this.#engine.read(this, () =>
      askWorkflow<unknown>(this.#handle, QUERIES.snapshot, ...(known === undefined ? [] : [known])),
    );
    const unchanged = CatalogUnchanged.safeParse(answer);
    if (unchanged.success) return unchanged.data;
    const { tenant, server } = this;
    if (isSnapshot(answer) && answer.tenant === tenant && answer.server === server) return answer;
    const message = `What ${this.workflowId} shows is no catalog of server ${server}, so somebody else may answer in its place. See the workflow in Temporal UI.`;
    throw new CountersignError('CATALOG_UNAVAILABLE', message, { tenant, server });
  }

  async #update<T extends ChangeMessage>(name: ChangeName, message: T): Promise<CatalogAck> {
    try {
      return await this.#sent(name, message, async (sent, id) =>
        this.#handle.executeUpdate<CatalogAck, [T]>(CATALOG_UPDATES[name], { args: [sent], ...id }),
      );
    } catch (error) {
      // One that has ended takes no update, and can still be read.
      if (error instanceof CountersignError && error.code === 'CATALOG_NOT_FOUND') await this.#assertNotEnded();
      throw error;
    }
  }

  /** Sends the message, signed if this client has a key and the catalog wants signatures. */
  async #sent<T extends ChangeMessage>(
    name: ChangeName,
    message: T,
    send: (message: T, id: object) => Promise<CatalogAck>,
  ): Promise<CatalogAck> {
    const { requestId, by } = message;
    const updateId = updateIdOf(CATALOG_UPDATES[name], message, requestId);
    const update = async (sent: T): Promise<CatalogAck> =>
      // A message may be large, so only the id is given that the answer repeats.
      await this.#engine.update(this, updateId, async (id) => send(sent, id), { requestId });
    const { signer } = this.#options;
    if (signer === undefined) return await update(message);
    const { signing } = await this.#state();
    if (signing === undefined && name !== 'connect') await this.#readingKeys(async () => this.refreshTrust());
    const catalog = {
      namespace: this.#engine.namespace,
      workflowId: this.workflowId,
      state: async () => await this.#state(),
      refreshTrust: async () => await this.refreshTrust(),
    };
    const said = { purpose: `catalog.${name}`, jti: requestId, person: by.id, groups: by.groups } as const;
    return await sendSigned(catalog, signer, message, said, update);
  }

  /** Starts the catalog if it does not exist, and lets it read its keys. */
  async #begin(): Promise<void> {
    const { taskQueue } = this.#options;
    await this.#readingKeys(async () =>
      this.#engine.update(this, undefined, async (id) =>
        this.#engine.client.workflow.executeUpdateWithStart<ToolCatalog, void, []>(CATALOG_UPDATES.refreshTrust, {
          startWorkflowOperation: catalogStart(this, taskQueue, true),
          ...id,
        }),
      ),
    );
  }

  async #state(): Promise<SignedState> {
    const snapshot = await this.#query();
    const signing = 'unchanged' in snapshot ? undefined : snapshot.signing;
    return signing === undefined ? { runId: '' } : { runId: signing.runId, signing: { tenant: this.tenant } };
  }

  /** Asks again while an earlier reading of keys may go on. In trust mode `temporal` a catalog never has any. */
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

/** Time for the end of a workflow that took no update. */
const WHY_MS = 2_000;

type ChangeName = Exclude<keyof typeof CATALOG_UPDATES, 'refreshTrust'>;

type ChangeMessage = Pick<CatalogRefresh, 'requestId' | 'by'>;

type SignedState = Awaited<ReturnType<SignedRun['state']>>;

/** The input of a message; a message without an id gets a random one. */
type Message<T extends { readonly requestId: string }> = Omit<T, 'requestId'> & { readonly requestId?: string };

function catalogMessage<T>(schema: z.ZodType<T>, input: object, what: string): T {
  const message = parseAs(schema, { requestId: randomUUID(), ...input }, 'CATALOG_INVALID', what);
  assertMessageFits(message, what, 'Send fewer tools at once; nothing was changed.');
  return message;
}

export type ToolCatalog = (identity: CatalogBeginning) => Promise<void>;

/**
 * Makes the start operation for one attempt: Temporal's client takes each once. A catalog starts together with its
 * first message, in one request: two clients at once reach the same catalog.
 * @param isSigned if this client signs
 */
export function catalogStart(
  { tenant, server }: CatalogIdentity,
  taskQueue: string,
  isSigned = false,
): WithStartWorkflowOperation<ToolCatalog> {
  return new WithStartWorkflowOperation<ToolCatalog>(CATALOG_WORKFLOW, {
    workflowId: catalogId({ tenant, server }),
    taskQueue,
    args: [{ tenant, server, ...(isSigned ? { signed: true as const } : {}) }],
    workflowIdConflictPolicy: 'USE_EXISTING',
    typedSearchAttributes: new TypedSearchAttributes([
      { key: SEARCH_ATTRIBUTES.tenant, value: tenant },
      { key: SEARCH_ATTRIBUTES.servers, value: [server] },
    ]),
    staticSummary: `Tool catalog of ${server}`,
  });
}

const Frame = CatalogSnapshot.extend({ entries: z.array(z.unknown()) });

/** Looks at entries one by one, and ends at the first that is none: there may be very many. */
function isSnapshot(answer: unknown): answer is CatalogSnapshot {
  return hasForm(Frame, answer) && answer.entries.every((entry) => hasForm(CatalogEntry, entry));
}

export function howToBeginAnew({ tenant, server }: CatalogIdentity): string {
  const at = `${server} --tenant ${shellWord(tenant)}`;
  return `what was set for its tools is lost once Temporal forgets it. Keep it (countersign catalog export ${at} > FILE), connect the server anew (countersign catalog connect ${at} --as ID --anew), and bring it back (countersign catalog import FILE --as ID).`;
}

const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 1_000;

/**
 * Returns the report of the newest refresh, once that is the given refresh or a later one.
 * @param read reads the catalog; given the mark of a snapshot, it returns less if nothing has changed since that mark
 * @throws CountersignError `RESULT_UNCERTAIN` if the refresh still goes on at the deadline
 */
export async function refreshEnd(
  { tenant, server }: CatalogIdentity,
  read: (known?: string) => Promise<CatalogSnapshot | CatalogUnchanged>,
  refresh: number,
  deadlineMs: number,
): Promise<RefreshReport> {
  const end = Date.now() + patienceOf(deadlineMs);
  let known: string | undefined;
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(LONGEST_PAUSE_MS, 2 * pauseMs)) {
    const snapshot = await read(known);
    known = snapshot.mark;
    const report = 'unchanged' in snapshot ? undefined : snapshot.lastRefresh;
    if (report !== undefined && report.refresh >= refresh) return report;
    const left = end - Date.now();
    if (left <= 0) {
      const message = `Refresh ${refresh} of ${server} did not end in time; it goes on. See: countersign catalog show ${server} --tenant ${shellWord(tenant)}`;
      throw new CountersignError('RESULT_UNCERTAIN', message, { tenant, server, refresh });
    }
    await pause(Math.min(pauseMs, left));
  }
}
