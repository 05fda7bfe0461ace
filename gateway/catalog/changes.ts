/**
 * Sends to catalogs what administrators say, in the name of the person whom the token names.
 *
 * 1. The catalog judges, by the rules of the workers' configuration: who may, which version, what this deployment can
 *    honour. This file only hides catalogs that the person may not see.
 * 2. Connecting begins a catalog if there is none, so it takes the right to connect before anything is sent.
 * 3. A message sent again under its id counts once. An id that was made here is told with an uncertain result.
 */
import { randomUUID } from 'node:crypto';
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import type { CatalogAck } from '../../contracts/schemas/catalog.ts';
import type {
  ChangeDecisionBody,
  ConnectBody,
  DisconnectBody,
  ImportAnswer,
  ImportBody,
  RefreshBody,
  SetToolsBody,
} from '../../contracts/schemas/http/catalogs.ts';
import type { Approver } from '../../contracts/schemas/request.ts';
import type { CatalogHandle, Countersign } from '../../client/index.ts';
import { importPlan, type ImportPlan, wantedTool } from '../../domain/catalog/file.ts';
import { bounded, visible } from '../../domain/text/escape.ts';
import type { Asker } from '../identity/person.ts';
import { idIn, MOST_GROUPS, withId } from '../inbox/answering.ts';
import { type Catalogs, noCatalog } from './catalogs.ts';

const MOST_NAMED = 5;

interface Said {
  readonly requestId?: string | undefined;
}

/** A message to a catalog, without who sends it. */
export type CatalogSent =
  | { readonly kind: 'connect'; readonly body: ConnectBody }
  | { readonly kind: 'disconnect'; readonly body: DisconnectBody }
  | { readonly kind: 'refresh'; readonly body: RefreshBody }
  | { readonly kind: 'tools'; readonly body: SetToolsBody }
  | { readonly kind: 'decide'; readonly changeId: string; readonly body: ChangeDecisionBody };

export class CatalogChanges {
  readonly #countersign: Countersign;
  readonly #catalogs: Catalogs;

  /** @param countersign signs in trust mode `signed` */
  constructor(countersign: Countersign, catalogs: Catalogs) {
    this.#countersign = countersign;
    this.#catalogs = catalogs;
  }

  /** @throws CountersignError `CATALOG_FORBIDDEN`, `CATALOG_NOT_FOUND`, and as `CatalogHandle.connect` */
  async connect(
    asker: Asker,
    server: string,
    { anew, url: named, ...body }: ConnectBody,
    key?: string,
  ): Promise<CatalogAck> {
    if (!this.#catalogs.rightsOf(asker).has('connect')) throw mayNotConnect(this.#catalogs, asker, server);
    const url = named ?? this.#catalogs.urlOf(server);
    if (url === undefined) {
      const message = `The connection is not valid: url is missing, and the configuration names no server ${server}. Give the url of its MCP endpoint. Nothing was changed.`;
      throw new CountersignError('CATALOG_INVALID', message, { path: 'url' });
    }
    const said = { ...body, url };
    return await this.#sent(asker, server, said, key, async (catalog, message) =>
      catalog.connect(message, { anew: anew === true }),
    );
  }

  /**
   * Sends to a catalog that is there, or connects one. `refresh` of the answer is the number of a refresh, which has
   * ended when the report has it; `waiting` names a change that a second person must decide.
   */
  async send(asker: Asker, server: string, sent: CatalogSent, key?: string): Promise<CatalogAck> {
    if (sent.kind === 'connect') return await this.connect(asker, server, sent.body, key);
    await this.#catalogs.snapshot(asker, server);
    switch (sent.kind) {
      case 'disconnect':
        return await this.#sent(asker, server, sent.body, key, async (to, message) => to.disconnect(message));
      case 'refresh':
        return await this.#sent(asker, server, sent.body, key, async (to, message) => to.refresh(message));
      case 'tools':
        return await this.#sent(asker, server, sent.body, key, async (to, message) => to.setToolPolicies(message));
      case 'decide': {
        const decision = { ...sent.body, changeId: sent.changeId };
        return await this.#sent(asker, server, decision, key, async (to, message) => to.decide(message));
      }
    }
  }

  /**
   * Sets what differs between a file and the catalog, in one change, or says what would.
   * @throws CountersignError `TOOL_UNKNOWN`, or `DEFINITION_CHANGED` for a file that would loosen what has changed
   */
  async bring(
    asker: Asker,
    server: string,
    { requestId, tools, expectedVersion, plan: isPlan }: ImportBody,
    key?: string,
  ): Promise<ImportAnswer> {
    const { entries, policyVersion } = await this.#catalogs.snapshot(asker, server);
    const wanted = new Map(Object.entries(tools).map(([name, tool]) => [name, wantedTool(tool)]));
    const plan = importPlan(entries, wanted);
    const said = {
      tools: plan.tools.map(({ change, before, after }) => ({ change, before, after })),
      refused: [...plan.refused],
      outdated: [...plan.outdated],
      unknown: [...plan.unknown],
    };
    if (isPlan === true) return { status: 'planned', policyVersion, ...said };
    assertImportable(plan, server);
    const changes = said.tools.map(({ change }) => change);
    if (changes.length === 0) return { status: 'unchanged', policyVersion, ...said };
    const body = { ...defined({ requestId }), expectedVersion: expectedVersion ?? policyVersion, changes };
    const { status, changeId, ...ack } = await this.send(asker, server, { kind: 'tools', body }, key);
    return { status, policyVersion: ack.policyVersion, ...defined({ changeId }), ...said };
  }

  /** @param key the header `Idempotency-Key`, which is the id of a message that has none of its own */
  async #sent<Body extends Said>(
    asker: Asker,
    server: string,
    body: Body,
    key: string | undefined,
    send: (catalog: CatalogHandle, message: Body & { requestId: string; by: Approver }) => Promise<CatalogAck>,
  ): Promise<CatalogAck> {
    const { tenant } = asker;
    const requestId = body.requestId ?? idIn(key) ?? randomUUID();
    try {
      const message = { ...body, requestId, by: this.#senderOf(asker) };
      return await send(this.#countersign.catalog(server, tenant), message);
    } catch (error) {
      throw withId(error, { requestId });
    } finally {
      this.#catalogs.forget(tenant, server);
    }
  }

  /** A message holds only so many groups: those that matter are the ones that administrators are named by. */
  #senderOf(asker: Asker): Approver {
    const { id, groups } = asker;
    if (groups.length <= MOST_GROUPS) return { id, groups: [...groups] };
    const named = new Set(this.#catalogs.rulesOf(asker).administrators.flatMap((each) => each.groups));
    return { id, groups: groups.filter((group) => named.has(group)).slice(0, MOST_GROUPS) };
  }
}

function mayNotConnect(catalogs: Catalogs, asker: Asker, server: string): CountersignError {
  if (!catalogs.sees(asker)) return noCatalog(server);
  const message = `${asker.id} may not connect servers in tenant ${asker.tenant}. Ask an administrator that catalog.administrators names; nothing was changed.`;
  return new CountersignError('CATALOG_FORBIDDEN', message, { server, right: 'connect' });
}

function assertImportable({ unknown, near, refused }: ImportPlan, server: string): void {
  const [first] = unknown;
  if (first !== undefined) {
    const hint = near.length === 0 ? '' : ` Did you mean ${near.map(visible).join(', ')}?`;
    const name = bounded(visible(first), 128);
    const path = `tools.${name}`;
    const message = `The catalog of ${server} has no tool ${name}.${hint} Nothing was sent.`;
    throw new CountersignError('TOOL_UNKNOWN', message, { path, server });
  }
  if (refused.length === 0) return;
  const named = refused.slice(0, MOST_NAMED).map((tool) => bounded(visible(tool), 128));
  const more = refused.length > named.length ? `, and ${refused.length - named.length} more` : '';
  const message = `The file would loosen ${named.join(', ')}${more}, and was written for another definition than the server has now. Read the difference, put the new hash into the file, and bring it again; nothing was sent.`;
  throw new CountersignError('DEFINITION_CHANGED', message, { server });
}
