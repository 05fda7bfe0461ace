/** Makes what a model is told of a tool. */
import { defined } from '../../contracts/defined.ts';
import type { JsonObject } from '../../contracts/schemas/json.ts';
import type { OfferedTool } from '../../domain/run/toolset.ts';
import { inertSchema, inertText } from '../../domain/views/inert-definition.ts';
import type { ModelTool } from './port.ts';

/** A toolset stays in memory while it is in use, and is offered anew with every step. */
const made = new WeakMap<OfferedTool, ModelTool>();

export function modelTool(pinned: OfferedTool): ModelTool {
  const known = made.get(pinned);
  if (known !== undefined) return known;
  const { modelName, server, serverUrl, definition, hosted } = pinned;
  const description = definition.description ?? definition.title;
  const offered = {
    name: modelName,
    qualifiedName: `${server}/${definition.name}`,
    ...(description === undefined ? {} : { description: inertText(description) }),
    // Sound: an object stays an object.
    inputSchema: inertSchema(definition.inputSchema) as JsonObject,
    ...(hosted === undefined
      ? {}
      : { hosted: { server, serverUrl, tool: definition.name, ...defined({ connectorId: hosted.connectorId }) } }),
  };
  made.set(pinned, offered);
  return offered;
}
