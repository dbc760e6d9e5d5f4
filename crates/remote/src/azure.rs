//! Signatures of requests to Azure.

use crate::error::Failure;
use object_store::azure::{AzureAuthorizer, AzureCredentialProvider};
use object_store::client::{HttpError, HttpErrorKind, HttpRequest};
use reqwest::header::AUTHORIZATION;

/// Signs `request` again after a header was added, if the key of an account has signed it. Other credentials do not
/// sign headers.
pub(crate) async fn sign_again(
    request: &mut HttpRequest,
    credentials: &AzureCredentialProvider,
) -> Result<(), HttpError> {
    let Some(account) = signing_account(request) else {
        return Ok(());
    };
    let failed =
        |error: object_store::Error| HttpError::new(HttpErrorKind::Unknown, Failure::of(&error));
    let credential = credentials.get_credential().await.map_err(failed)?;
    request.headers_mut().remove(AUTHORIZATION);
    let authorizer = AzureAuthorizer::new(&credential, &account);
    authorizer.try_authorize(request).map_err(failed)
}

/// Returns the account whose key has signed `request`.
fn signing_account(request: &HttpRequest) -> Option<String> {
    let authorization = request.headers().get(AUTHORIZATION)?.to_str().ok()?;
    let (account, _) = authorization.strip_prefix("SharedKey ")?.split_once(':')?;
    Some(account.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::start_runtime;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use bytes::Bytes;
    use object_store::StaticCredentialProvider;
    use object_store::azure::{AzureAccessKey, AzureCredential};
    use reqwest::Method;
    use sha2::{Digest as _, Sha256};
    use std::sync::Arc;

    const KEY: &[u8] = b"key";

    /// Returns a conditional request whose header `Authorization` is `authorization`, after [`sign_again`].
    fn signed_again(authorization: &'static str) -> HttpRequest {
        let key = AzureAccessKey::try_new(&STANDARD.encode(KEY)).unwrap();
        let credential = AzureCredential::AccessKey(key);
        let credentials: AzureCredentialProvider =
            Arc::new(StaticCredentialProvider::new(credential));
        let mut request = HttpRequest::new(Bytes::new().into());
        *request.method_mut() = Method::PUT;
        *request.uri_mut() = "http://host/container/disk?comp=blocklist".parse().unwrap();
        for (name, value) in [
            ("authorization", authorization),
            ("content-length", "5"),
            ("if-none-match", "*"),
        ] {
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        let runtime = start_runtime().unwrap();
        let signed = runtime.block_on(sign_again(&mut request, &credentials));
        signed.unwrap();
        request
    }

    /// Returns the HMAC of `text` with SHA-256 and [`KEY`].
    fn hmac(text: &str) -> String {
        let padded = |byte: u8| {
            let mut block = [byte; 64];
            for (own, key) in block.iter_mut().zip(KEY) {
                *own ^= key;
            }
            block
        };
        let inner = Sha256::new().chain_update(padded(0x36));
        let inner = inner.chain_update(text).finalize();
        let outer = Sha256::new().chain_update(padded(0x5c));
        STANDARD.encode(outer.chain_update(inner).finalize())
    }

    #[test]
    fn signature_of_a_key_includes_the_condition() {
        let request = signed_again("SharedKey account:old");
        let header = |name: &str| request.headers()[name].to_str().unwrap();
        // The text that the documentation of Azure specifies.
        let text = format!(
            "PUT\n\n\n5\n\n\n{}\n\n\n*\n\n\nx-ms-version:{}\n/account/container/disk\ncomp:blocklist",
            header("date"),
            header("x-ms-version")
        );
        let expected = format!("SharedKey account:{}", hmac(&text));
        assert_eq!(header("authorization"), expected);
        let values = request.headers().get_all(AUTHORIZATION);
        assert_eq!(values.iter().count(), 1);
    }

    #[test]
    fn token_is_kept() {
        let request = signed_again("Bearer T");
        assert_eq!(request.headers()[AUTHORIZATION], "Bearer T");
    }
}
