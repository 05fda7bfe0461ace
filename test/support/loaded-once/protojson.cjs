// The JSON of these messages (`proto.cjs`), which knows them by the classes of the process.
/** @type {{ loadedOnce: { protojson: () => unknown } }} */
const { loadedOnce } = globalThis;
module.exports = loadedOnce.protojson();
