import { type DevelopmentCertificates, developmentCertificates } from "../../src/cli/development/certificates.ts";
import { startCustomerMaster } from "../../src/cli/development/customer-master.ts";

/** The customer master in a process of its own, so that it can be killed: `target.ts <folder of certificates> <port>`. */
const [folder = "", port = "0"] = process.argv.slice(2);

const certificates: DevelopmentCertificates = await developmentCertificates(folder, Date.now());
console.log((await startCustomerMaster({ certificates, port: Number(port) })).port);
